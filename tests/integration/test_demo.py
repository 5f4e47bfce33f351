"""The whole path on loopback: traffic to advice, three sums that must agree, a collector that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.processes import running, tree

T = TypeVar("T")

PATIENCE_SECONDS = 360.0
STORED_BYTES = 3 * 1024 * 1024
"""More than an empty store has, less than one of the whole demo: a collector killed now is in the middle."""
TOKENS = ("prompt", "l0", "l1", "l2", "external", "computed")


def start_demo(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tierscope.cli", "demo", "--headless", "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def document_of(demo: subprocess.Popen[str]) -> dict[str, object]:
    stdout, stderr = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 0, stderr
    return json.loads(stdout)


def wait_for(found: Callable[[], T | None], what: str) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if (answer := found()) is not None:
            return answer
        time.sleep(0.05)
    pytest.fail(f"waited in vain for {what}")


def process_of(pid: int, command: str) -> tuple[int, Path] | None:
    """A descendant that runs a tierscope command, and the folder of its settings."""
    for child, words in running(pid, command).items():
        return child, Path(words[words.index("--config") + 1]).parent
    return None


def stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("demo.duckdb*") if path.is_file())


def assert_conserved(document: dict[str, object]) -> None:
    conservation = document["conservation"]
    for way in ("records", "scraped", "stored"):
        tokens = conservation[way]
        assert tokens["prompt"] == sum(tokens[name] for name in TOKENS[1:]), way
    assert conservation["records"] == conservation["scraped"] == conservation["stored"]
    assert conservation["records"]["prompt"] > 0
    assert conservation["equal"] is True


def test_three_sums_agree_to_the_token_and_there_is_advice():
    """Hook records as sent, /metrics as scraped and the store as asked hold the same tokens by tier."""
    document = document_of(start_demo("--duration", "15"))

    assert_conserved(document)
    assert document["recommendation"]["status"] == "recommend"
    assert document["completeness_ratio"] == 1.0


def test_a_collector_killed_in_the_middle_loses_nothing():
    """After kill -9 it resumes behind its last committed batch; the sums are equal again."""
    demo = start_demo("--duration", "20")
    collector, folder = wait_for(lambda: process_of(demo.pid, "collect"), "a collector")
    wait_for(lambda: stored_bytes(folder) > STORED_BYTES or None, "the store to hold a part of the traffic")

    os.kill(collector, signal.SIGKILL)
    document = document_of(demo)

    assert_conserved(document)


def test_an_interrupt_leaves_no_process():
    """Ctrl-C ends the demo and everything it started."""
    demo = start_demo("--duration", "60")
    wait_for(lambda: process_of(demo.pid, "collect"), "a collector")
    started = tree(demo.pid)[1:]

    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=PATIENCE_SECONDS)

    assert demo.returncode == 0
    assert started
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
