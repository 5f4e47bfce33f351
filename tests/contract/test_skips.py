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


PASSING_TEST = """
def test_wants_nothing():
    pass
"""


@pytest.fixture
def pytest_run(tmp_path, repository):
    """Return a function that runs a test that skips and one that passes, with the conftest of all tests."""
    shutil.copy(repository / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_skipping.py").write_text(SKIPPING_TEST, encoding="utf-8")
    (tmp_path / "test_passing.py").write_text(PASSING_TEST, encoding="utf-8")

    def run(*arguments, fail_on_skip="1", path=None):
        environment = {**os.environ, "TIERSCOPE_FAIL_ON_SKIP": fail_on_skip}
        environment["PATH"] = path or environment["PATH"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--rootdir={tmp_path}", *arguments, str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )

    return run


@pytest.mark.parametrize(("asked", "status"), [("", 0), ("1", 1)])
def test_a_skip_fails_only_where_it_is_asked_to(pytest_run, asked, status):
    """With TIERSCOPE_FAIL_ON_SKIP a run that skipped anything fails and names what was missing."""
    run = pytest_run("-p", "no:cacheprovider", fail_on_skip=asked)

    assert run.returncode == status, run.stdout + run.stderr
    assert ("no-such-package" in run.stdout) == bool(asked)


def test_a_skip_that_fails_is_run_again_with_what_failed(pytest_run, tmp_path):
    """CI's second try has it and nothing else: red while it still skips, green once it passes."""
    again = ("--last-failed", "--last-failed-no-failures", "none")
    program = tmp_path / "bin" / "no-such-program"
    program.parent.mkdir()
    assert pytest_run("-n", "1").returncode == 1

    still = pytest_run(*again)
    program.touch(mode=0o755)
    passed = pytest_run(*again, path=f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    assert still.returncode == 1, still.stdout + still.stderr
    assert "1 skipped" in still.stdout
    assert "passed" not in still.stdout
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "1 passed" in passed.stdout
