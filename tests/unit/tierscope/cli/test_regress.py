"""`tierscope regress`: one sentence a regression, and an exit status for CI of a rollout."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tests.stored_requests import StoredRequests, StoredTogether
from tierscope.cli.main import app
from tierscope.domain.errors import BadInput

NOW = 4000.0
runner = CliRunner()


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs the command on a store in which engines were slow for a while."""

    def run(*arguments: str, until: float = 1e9, beside: tuple[StoredRequests, ...] = ()):
        slow = StoredRequests(slow_from=3000.0, slow_until=until)
        stored = StoredTogether(slow, *beside) if beside else slow
        stored.close = lambda: None
        monkeypatch.setattr("tierscope.storage.duckdb_reader.DuckDbReader.open", lambda _: stored)
        monkeypatch.setattr("time.time", lambda: NOW)
        return runner.invoke(app, ["regress", "--store", "x.duckdb", "--since", "25m", *arguments])

    return run


def test_a_regression_is_one_sentence(run):
    """Who, how much, since when, what to do."""
    result = run()

    assert result.exit_code == 0, result.output
    assert "engines take" in result.stdout
    assert "since 1970-01-01T00:5" in result.stdout


@pytest.mark.parametrize(
    ("fail_on", "until", "status"),
    [("critical", 1e9, 3), ("info", 1e9, 3), ("warning", 3400.0, 0), ("info", 3400.0, 3)],
)
def test_the_exit_status_is_for_ci(run, fail_on, until, status):
    """3 at or above what was asked for; what is over is only information."""
    result = run("--fail-on", fail_on, "--json", until=until)

    assert result.exit_code == status, result.output
    assert json.loads(result.stdout)["endpoint"] == "ns/chat"


def test_too_little_to_learn_from_is_said(run):
    """And is no finding."""
    result = run("--learn", "2m", "--fail-on", "info")

    assert result.exit_code == 0
    assert "too few" in result.stdout


def test_who_is_not_judged_or_not_by_its_own_past_is_said(run):
    """Otherwise it would pass for well."""
    few = StoredRequests(replica="few-0", served_from=2400.0)
    canary = StoredRequests(replica="canary-0", served_from=3000.0)

    said = run(beside=(few, canary)).stdout

    assert "ns/chat (m on few): not judged, 100 requests of its own before that moment are too few" in said
    assert "ns/chat (m on canary): held against 2500 of pod, with 0 requests of its own before" in said
    assert "(m on pod):" not in said


@pytest.mark.parametrize("since", ["1764550000000", "nan", "inf", "-inf", "4000", "0m"])
def test_a_moment_that_is_not_past_is_refused(run, since):
    """Nothing came after it, so that nothing is found there says nothing: no exit status 0 for CI."""
    result = run("--since", since, "--fail-on", "info")

    assert isinstance(result.exception, BadInput)
    assert result.exception.where == "--since"
    assert "before now" in result.exception.fix


def test_unix_seconds_before_now_are_a_moment(run):
    """The same as so many minutes ago."""
    result = run("--since", "2500", "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["since_unix_seconds"] == 2500


def test_a_span_that_is_none_is_refused(run):
    """With what would be one."""
    result = run("--learn", "soon")

    assert isinstance(result.exception, BadInput)
