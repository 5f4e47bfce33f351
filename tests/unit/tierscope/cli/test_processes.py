"""Children of a command: they announce themselves, they are restarted, they never outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tierscope.cli.processes import Child, Restarter, Stopped, StopRequest
from tierscope.domain.errors import TierscopeError

PATIENCE_SECONDS = 120.0


@pytest.fixture(autouse=True)
def importable(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children import this checkout: a script's own folder is first on its path, not ours."""
    monkeypatch.setenv("PYTHONPATH", str(repository))


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """Return a function from a script's text to the command that runs it."""

    def write(text: str) -> tuple[str, ...]:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        return (sys.executable, str(script))

    return write


POLITE = """
    import sys
    from tierscope.cli.processes import StopRequest, announce
    stop = StopRequest(lifeline="--lifeline" in sys.argv)
    announce({"url": "http://127.0.0.1:1"}, as_json="--json" in sys.argv)
    stop.wait()
"""


def test_a_child_tells_its_addresses_and_stops_when_asked(program):
    """What a child announced can be used at once, and it ends by itself when asked to."""
    child = Child(["export"], program=program(POLITE))

    addresses, status = child.addresses, child.stop()

    assert addresses == {"url": "http://127.0.0.1:1"}
    assert status == 0


def test_a_child_that_fails_to_come_up_is_named(program):
    """A child that ends without a word is an error with its name, not a hang."""
    with pytest.raises(TierscopeError, match="tierscope collect did not come up"):
        Child(["collect"], program=program("raise SystemExit(3)"))


def test_a_silent_child_is_given_up_and_stopped(program, tmp_path):
    """A child that never announces itself is stopped when the wait is over."""
    pid_file = tmp_path / "pid"
    script = f"""
        import os, pathlib, time
        pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))
        time.sleep(600)
    """
    with pytest.raises(TierscopeError, match="did not come up within 2 s"):
        Child(["collect"], program=program(script), ready_seconds=2)

    assert not is_running(int(pid_file.read_text("utf-8")))


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    """A stop request of this process, and its signal handlers as they were afterwards."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield StopRequest()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_stop_is_heard_while_a_child_comes_up(program, tmp_path, stop):
    """Nobody waits for a child to come up that is to be stopped at once; it is gone."""
    pid_file = tmp_path / "pid"
    script = f"""
        import os, pathlib, signal, time
        pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(600)
    """

    with pytest.raises(Stopped):
        Child(["collect"], program=program(script), ready_seconds=600, stop=stop)

    assert not is_running(int(pid_file.read_text("utf-8")))


def test_children_do_not_import_from_the_working_folder(tmp_path):
    """A file of the user's that is named like one of our packages is not run."""
    (tmp_path / "api.py").write_text("raise SystemExit('the wrong api')", encoding="utf-8")
    # Started as an installed command is: with its own folder first on the path, not the working one.
    script = tmp_path / "bin" / "run.py"
    script.parent.mkdir()
    script.write_text(
        "import subprocess\n"
        "from tierscope.cli.processes import TIERSCOPE\n"
        "subprocess.run([*TIERSCOPE[:-2], '-c', 'import api.app'], check=True)\n",
        encoding="utf-8",
    )

    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, capture_output=True)


def test_a_child_ends_with_its_parent_however_that_ends(program, tmp_path):
    """Kill -9 of the parent leaves no process behind."""
    pid_file = tmp_path / "pid"
    command = program(POLITE)
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
                import pathlib, time
                from tierscope.cli.processes import Child
                child = Child(["export"], program={command!r})
                pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))
                time.sleep(600)
            """),
        ]
    )
    assert until(lambda: pid_file.exists() and pid_file.read_text("utf-8") != "")
    child_pid = int(pid_file.read_text("utf-8"))

    parent.kill()
    parent.wait()

    assert until(lambda: not is_running(child_pid))


def test_a_child_that_is_killed_is_started_again(program):
    """After kill -9 the next looks start the child anew, and its addresses are the new one's."""
    restarter = Restarter(["collect"], program=program(POLITE))
    first = restarter.pid
    assert first is not None

    os.kill(first, signal.SIGKILL)
    restarted = until(lambda: (restarter.check(), restarter.restarts == 1)[1])
    second = restarter.pid
    restarter.stop()

    assert restarted
    assert second not in (None, first)
