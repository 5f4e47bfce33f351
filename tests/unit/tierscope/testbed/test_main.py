"""The testbed alone, as a program."""

from __future__ import annotations

import json
import subprocess
import sys


def test_it_prints_its_addresses_and_then_what_it_sent(repository):
    """One JSON line when it is ready, one when it is done, both for programs to read."""
    done = subprocess.run(
        [sys.executable, "-m", "tierscope.testbed", "--duration", "30", "--speed", "500", "--replicas", "2"],
        cwd=repository,
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )

    ready, end = map(json.loads, done.stdout.splitlines())
    assert ready["ready"]
    assert [engine["replica"] for engine in ready["settings"]["engines"]] == ["demo-0", "demo-1"]
    assert end["finished"]
    assert end["sent"]["prompt"] > 0
