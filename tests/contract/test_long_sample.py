"""A sample of the long tests says what it leaves out; the long tests skip it, and say why."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WITHOUT = "tests/long/test_holdout.py::test_stationary_workloads_are_seldom_called_drifting"
WANTING = "tests/long/test_holdout.py::test_claude_drifts_and_is_predicted_for_the_load_that_comes"


@pytest.fixture
def pytest_run(repository, tmp_path):
    """Return a function that runs pytest over tests of the repository, on a machine without the traces."""

    def run(*arguments, **variables):
        environment = os.environ | {"TIERSCOPE_TRACES": str(tmp_path / "none"), "TIERSCOPE_LONG": ""}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "long", *arguments],
            capture_output=True,
            text=True,
            cwd=repository,
            env=environment | variables,
            check=False,
        )

    return run


def test_a_sample_leaves_out_what_wants_traces_and_names_it(pytest_run):
    """Neither run nor skipped, which would fail: the last lines tell which tests, and why."""
    run = pytest_run("--collect-only", WITHOUT, WANTING, TIERSCOPE_LONG="sample", TIERSCOPE_FAIL_ON_SKIP="1")
    collected, _, left_out = run.stdout.partition("left out of the sample")

    assert run.returncode == 0, run.stdout + run.stderr
    assert WITHOUT in collected
    assert WANTING not in collected
    assert WANTING in left_out
    assert "TIERSCOPE_TRACES" in left_out


def test_workers_tell_what_they_left_out(pytest_run):
    """Once, however many there are."""
    run = pytest_run("-n", "2", WANTING, TIERSCOPE_LONG="sample")

    assert run.stdout.partition("left out of the sample")[2].count(WANTING) == 1, run.stdout + run.stderr


def test_without_a_sample_they_skip_with_the_reason(pytest_run):
    """A whole run is by hand: what is missing is named, and the rest goes on."""
    run = pytest_run(WANTING, TIERSCOPE_FAIL_ON_SKIP="")

    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 skipped" in run.stdout
    assert "claude_code_sessions.parquet" in run.stdout
