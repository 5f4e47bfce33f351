"""`tierscope curve` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import naive
from tierscope.cli.main import app


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two prompts of three blocks in turn, the last one partial."""
    rows = [
        {
            "timestamp": i,
            "input_length": 1224,
            "output_length": 1,
            "hash_ids": [3 * (i % 2) + k for k in range(3)],
        }
        for i in range(6)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(app, ["curve", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_document_has_the_promised_fields_and_the_naive_hits(trace):
    """Hits at the asked capacities are those of a cache that really evicts."""
    document = run(trace, "--capacities", "3,5,6")

    paths = [[3 * (i % 2) + k for k in range(3)] for i in range(6)]
    expected = [sum(naive.hits_by_replaying_a_cache(paths, size)) / 18 for size in (3, 5, 6)]
    assert document["hit_ratio"] == pytest.approx(expected, abs=1e-6)
    assert {
        name: document[name] for name in ("unit", "block_tokens", "requests", "accesses", "unique_blocks")
    } == {
        "unit": "blocks",
        "block_tokens": 512,
        "requests": 6,
        "accesses": 18,
        "unique_blocks": 6,
    }
    assert document["infinite_hit_ratio"] == pytest.approx(12 / 18, abs=1e-6)
    assert document["capacities"] == [3, 5, 6]


def test_tokens_weigh_a_partial_block_less(trace):
    """With 5 blocks every repeat hits its two whole blocks: 1,024 of 1,224 tokens."""
    assert run(trace, "--weight", "tokens", "--capacities", "5")["hit_ratio"] == [
        pytest.approx(4 * 1024 / (6 * 1224), abs=1e-6)
    ]


def test_warm_requests_touch_and_are_not_counted(trace):
    """After the first two requests everything hits."""
    document = run(trace, "--warm", "0.34", "--capacities", "6")

    assert document["accesses"] == 12
    assert document["hit_ratio"] == [1.0]


def test_sizes_in_gib_need_the_bytes_of_a_token(trace):
    """Without them the question has no answer; with them 6 blocks of 512 tokens of 1 MiB are 3 GiB."""
    refused = CliRunner().invoke(app, ["curve", str(trace), "--unit", "gib"])

    document = run(trace, "--unit", "gib", "--bytes-per-token", 2**20, "--capacities", "2.5,3")

    assert refused.exit_code == 2
    assert document["capacities"] == [2.5, 3.0]
    assert document["hit_ratio"] == [pytest.approx(8 / 18, abs=1e-6), pytest.approx(12 / 18, abs=1e-6)]


def test_people_get_a_table(trace):
    """The table names the weight and ends with the endless tier."""
    result = CliRunner().invoke(app, ["curve", str(trace)])

    assert result.exit_code == 0
    assert "endless" in result.stdout
    assert "6 requests" in result.stdout
