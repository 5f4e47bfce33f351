"""What tests start ends with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.exporting import await_true

OWNER = """
import time
from tests.lakes import postgres
with postgres() as server:
    print((server.folder / "data" / "postmaster.pid").read_text().split()[0], server.folder, flush=True)
    time.sleep(600)
"""


def test_a_postgres_ends_with_tests_that_are_killed(postgres, repository):
    """Its server is gone, and its folder."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=repository, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout:
        server, folder = owner.stdout.readline().split()
    assert Path(f"/proc/{server}").exists()
    owner.kill()
    owner.wait()

    await_true(lambda: not Path(f"/proc/{server}").exists(), "the server has ended", patience_seconds=60)
    await_true(lambda: not Path(folder).exists(), "its folder is gone", patience_seconds=60)
