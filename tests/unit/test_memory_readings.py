"""Readings of memory are of the process that is asked for, in bytes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.exporting import await_true
from tests.memory import forget_peak, peak_bytes, resident_bytes
from tests.processes import alive

SIZE_BYTES = 64 * 2**20
HOLDING = f"held = bytearray(b'x') * {SIZE_BYTES}; print(flush=True); input()"


def test_a_process_holds_what_it_has_written_to():
    """Resident and at its peak; once it has ended there is nothing to read, also before it is waited for."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDING], **pipes) as process:
        process.stdout.readline()
        assert SIZE_BYTES <= resident_bytes(process.pid) <= peak_bytes(process.pid) < 4 * SIZE_BYTES
        process.kill()
        await_true(lambda: not alive(process.pid), "it has ended")
        with pytest.raises(ProcessLookupError, match=f"{process.pid}"):
            peak_bytes(process.pid)


def test_a_peak_can_be_forgotten():
    """It is then that of what came after."""
    held = bytearray(b"x") * SIZE_BYTES
    before = peak_bytes()
    del held

    forget_peak()

    assert peak_bytes() < before - SIZE_BYTES // 2
