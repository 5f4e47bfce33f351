"""Faults of chaos befall whom they name: someone who is alive, and a process started again as well."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.exporting import await_true
from tests.load import chaos
from tests.processes import alive, running

SERVER = """
import subprocess, sys
COLLECTOR = [sys.executable, "-c", "input()", "tierscope.cli", "collect"]
for _ in sys.stdin:
    subprocess.Popen(COLLECTOR, stdin=subprocess.PIPE)
"""


@pytest.fixture
def server():
    """A process that starts a collector at every line it reads, and waits for none that ended."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE) as process:
        yield process
        for pid in running(process.pid, "collect"):
            os.kill(pid, signal.SIGKILL)
        process.kill()


@pytest.fixture
def stage(server):
    """All that a fault asks of the stage."""

    def living(which):
        return {f"{which} {pid}": pid for pid in running(server.pid, which)}

    return SimpleNamespace(living=living)


def start_collector(server):
    server.stdin.write(b"\n")
    server.stdin.flush()
    await_true(lambda: running(server.pid, "collect"), "there is a collector")


def test_a_collector_is_killed_again_after_it_was_started_again(server, stage):
    """Each time it is the living one: whoever was killed before is not among those that are drawn."""
    for _ in range(3):
        start_collector(server)
        [pid] = running(server.pid, "collect")

        befell = chaos.killed("collect")(stage, random.Random(1), 0.0)

        await_true(lambda pid=pid: not alive(pid), "it is dead")
        assert befell == 1
        assert running(server.pid, "collect") == {}


def test_a_fault_waits_for_someone_to_befall(monkeypatch):
    """Who is down is not drawn; one that comes up is, and nobody at all is a failure, not a fault."""
    answers = iter([{}, {}, {"exporter-1": 7}])
    stage = SimpleNamespace(living=lambda _: next(answers))
    assert chaos.drawn(stage, random.Random(1), "exporter") == ("exporter-1", 7)

    monkeypatch.setattr(chaos, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(AssertionError, match="no exporter"):
        chaos.drawn(SimpleNamespace(living=lambda _: {}), random.Random(1), "exporter")


def test_only_who_was_there_is_befallen():
    """A process that is gone takes no signal, and is not counted."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert chaos.signalled([gone.pid, os.getpid()], 0) == [os.getpid()]
