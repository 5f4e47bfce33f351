"""The command as a program: standard streams that are not there, and Ctrl-C before anything began."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def test_a_command_without_standard_streams_still_does_its_work(repository: Path):
    """Started with all three closed, it neither fails nor lets a file take their place."""
    script = """
        import os, sys
        from tierscope.cli.output import open_closed_streams
        open_closed_streams()
        print("x")
        print("y", file=sys.stderr)
        sys.stdin.read()
        sys.exit(0 if os.open(os.devnull, os.O_RDONLY) > 2 else 7)
    """
    closed = 'exec "$0" -c "$1" <&- >&- 2>&-'
    command = ["sh", "-c", closed, sys.executable, textwrap.dedent(script)]

    done = subprocess.run(command, cwd=repository, check=False)

    assert done.returncode == 0


@pytest.mark.parametrize("moment", ["numpy", "tierscope.cli.main"])
def test_an_interrupt_while_importing_prints_no_traceback(repository: Path, moment: str):
    """Ctrl-C in the first second ends the command quietly, as the signal does."""
    script = f"""
        import importlib.abc, os, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs the tests may ignore it
        class Interrupt(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == {moment!r}:
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupt())
        from tierscope.cli.__main__ import main
        main()
    """
    script = textwrap.dedent(script)

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_ignored_interrupt_stays_ignored(repository: Path):
    """A command put into the background by a shell is not ended by somebody else's Ctrl-C."""
    script = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv = ['t', '--help'];"
        "from tierscope.cli.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "os.kill(os.getpid(), signal.SIGINT)"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, check=False)

    assert done.returncode == os.EX_OK
