"""How long each process takes to come up, and what it uses when nothing happens: printed, for the documents.

make long ARGS="tests/long/test_cold_start.py -s"        # on a machine that does nothing else
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.exporting import await_true
from tests.load.measuring import used
from tests.long_sample import SAMPLED
from tierscope.cli.processes import Child
from tierscope.cli.settings_file import write_settings
from tierscope.domain.settings import CollectorSettings, Settings

pytestmark = pytest.mark.long

IDLE_SECONDS = 2.0 if SAMPLED else 60.0
TIMES = 3


@pytest.fixture
def settings(tmp_path):
    """A file of settings without anything to read."""
    path = tmp_path / "tierscope.yaml"
    write_settings(Settings(collector=CollectorSettings(store_path=str(tmp_path / "store.duckdb"))), path)
    return path


@pytest.mark.parametrize("command", ["export", "collect", "serve"])
def test_a_process_comes_up_and_idles(command, settings, capsys):
    """From the start of the interpreter to the addresses it announces; the best of three, files in memory."""
    came_up = []
    for _ in range(TIMES):
        began = time.monotonic()
        child = Child([command, "--config", str(settings)], ready_seconds=300.0)
        came_up.append((time.monotonic() - began, used([child.pid], ())[0]))
        if len(came_up) < TIMES:
            assert child.stop() == 0
    before, at = used([child.pid], ()), time.monotonic()
    await_true(lambda: time.monotonic() - at > IDLE_SECONDS, "it has idled")
    seconds, resident = used([child.pid], ())
    share = (seconds - before[0]) / (time.monotonic() - at)
    assert child.stop() == 0
    clock, processor = min(came_up)[0], min(one for _, one in came_up)
    with capsys.disabled():
        print(
            f"\n{command}: up after {clock:.2f} s by the clock, {processor:.2f} s of a core, its children's "
            f"included; idle {resident / 1e6:.0f} MB resident, {100 * share:.2f} % of a core; "
            f"load {os.getloadavg()[0]:.0f}"
        )


def test_the_command_line_answers(capsys):
    """`tierscope --help`, a process each time."""
    took = []
    for _ in range(TIMES):
        before = os.times()
        done = subprocess.run(
            [sys.executable, "-m", "tierscope.cli", "--help"], capture_output=True, text=True, check=True
        )
        after = os.times()
        took.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
        assert "doctor" in done.stdout
    with capsys.disabled():
        print(f"\n--help: {min(took):.2f} s of a core; load {os.getloadavg()[0]:.0f}")
