"""`tierscope simulate` and `tierscope holdout` from the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tierscope.cli.main import app

SIZES = ("--l0", "2", "--l1", "4", "--l2", "16", "--replicas", "3")


@pytest.fixture
def trace(fixtures):
    return fixtures / "traces" / "conversations.jsonl"


def run(command, *arguments):
    result = CliRunner().invoke(app, [command, *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_simulate_prints_the_promised_document(trace):
    """Tokens add up, shares are those of the tokens, replicas' tokens are the prompts'."""
    document = run("simulate", trace, *SIZES, "--policy", "session", "--no-knee")

    tokens = document["tokens"]
    assert document["requests"] == 90
    assert tokens["prompt"] == sum(tokens[tier] for tier in ("l0", "l1", "l2", "computed"))
    assert document["hit_ratio"]["l0"] == tokens["l0"] / tokens["prompt"]
    assert document["hit_ratio"]["total"] == pytest.approx(1 - tokens["computed"] / tokens["prompt"])
    assert sum(replica["tokens"] for replica in document["per_replica"]) == tokens["prompt"]
    assert len(document["per_replica"]) == 3
    assert set(document["ttft_seconds"]) == {"mean", "p50", "p90"}
    assert document["knee_requests_per_second"] is None
    assert document["saturated"] is None
    assert document["seconds"] > 0
    assert sum(document["miss_tokens"].values()) == tokens["computed"]
    assert document["miss_tokens"]["compulsory"] > 0


def test_a_bigger_fleet_memory_never_computes_more(trace):
    """The same trace with ten times the pool and host memory."""
    small, large = (
        run("simulate", trace, "--replicas", 2, "--l0", 2, "--l1", l1, "--l2", l2, "--no-knee")
        for l1, l2 in ((1, 1), (40, 160))
    )

    assert large["tokens"]["computed"] < small["tokens"]["computed"]


def test_the_table_shows_what_people_ask_first(trace):
    """Share of each tier, TTFT, the load it bears, and each replica."""
    result = CliRunner().invoke(app, ["simulate", str(trace), *SIZES])

    assert result.exit_code == 0, result.output
    for words in ("computed", "TTFT", "replica"):
        assert words in result.stdout


def test_a_load_far_above_what_the_fleet_bears_is_saturated(tmp_path):
    """Seconds of computing each, a millisecond apart: no knee to tell, but that it is passed."""
    rows = (
        {
            "timestamp": i,
            "input_length": 8 * 512,
            "output_length": 1,
            "hash_ids": list(range(8 * i, 8 * i + 8)),
        }
        for i in range(100)
    )
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    document = run("simulate", path, *SIZES)
    told = CliRunner().invoke(app, ["simulate", str(path), *SIZES]).stdout

    assert document["saturated"] is True
    assert document["knee_requests_per_second"] is None
    assert "saturated" in told
    assert "bears" not in told


def test_routers_are_compared_on_request(trace):
    """All five, the best mean TTFT first, each with its hits and its imbalance; people get a table."""
    routers = run("simulate", trace, *SIZES, "--no-knee", "--compare")["routers"]
    table = CliRunner().invoke(app, ["simulate", str(trace), *SIZES, "--no-knee", "--compare"])

    assert [row["policy"] for row in routers if row["imbalance"] >= 1] == [row["policy"] for row in routers]
    assert {row["policy"] for row in routers} >= {"gateway", "kvaware", "prefixaware"}
    assert routers == sorted(routers, key=lambda row: row["mean_ttft_seconds"])
    assert "imbalance" in table.stdout


def test_a_router_nobody_knows_is_wrong_usage(trace):
    """Exit status 2, with those there are."""
    result = CliRunner().invoke(app, ["simulate", str(trace), "--policy", "random"])

    assert result.exit_code == 2
    assert "prefixaware" in result.output


def grown(tmp_path, requests):
    """Conversations of four turns each, one after the other."""
    rows = [
        {
            "timestamp": 1000 * i,
            "input_length": 512 * (1 + i % 4),
            "output_length": 1,
            "hash_ids": [4 * (i // 4) + k for k in range(1 + i % 4)],
        }
        for i in range(requests)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_holdout_prints_the_promised_document(tmp_path):
    """A trace that repeats itself is predicted to the last digit, with narrow intervals and no drift."""
    document = run("holdout", grown(tmp_path, 800))

    sums = {"mae", "max_error", "coverage"}
    assert set(document) == sums | {"drift", "at_load", "capacities", "predicted", "observed"}
    assert document["max_error"] < 0.01
    assert document["drift"]["found"] is False
    assert len(document["capacities"]) == len(document["predicted"]) == len(document["observed"])
    assert all(point["low"] <= point["value"] <= point["high"] for point in document["predicted"])
    assert document["at_load"] is None


def test_holdout_says_when_a_trace_is_too_short(trace):
    """Ninety requests: an error with a fix, not a number."""
    result = CliRunner().invoke(app, ["holdout", str(trace), "--json"])

    assert result.exit_code == 1
    assert "too few" in str(result.exception)


def test_the_table_of_holdout_ends_with_the_error(tmp_path):
    """And how many intervals hold."""
    result = CliRunner().invoke(app, ["holdout", str(grown(tmp_path, 400))])

    assert result.exit_code == 0, result.output
    assert "off by" in result.stdout
