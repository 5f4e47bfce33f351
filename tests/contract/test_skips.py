"""A skipped test is loud, and fails where it is asked to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

SKIPPING_TEST = """
def test_wants_a_program_nobody_has(system_binary):
    system_binary("no-such-program", package="no-such-package")
"""


@pytest.mark.parametrize(("asked", "status"), [("", 0), ("1", 1)])
def test_a_skip_fails_only_where_it_is_asked_to(tmp_path, repository, asked, status):
    """With TIERSCOPE_FAIL_ON_SKIP a run that skipped anything fails and names what was missing."""
    shutil.copy(repository / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_skipping.py").write_text(SKIPPING_TEST, encoding="utf-8")
    environment = {**os.environ, "TIERSCOPE_FAIL_ON_SKIP": asked}

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )

    assert run.returncode == status, run.stdout + run.stderr
    assert ("no-such-package" in run.stdout) == bool(asked)
