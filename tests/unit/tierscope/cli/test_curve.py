"""`tierscope curve` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests import naive
from tierscope.cli import main
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
    assert document["skipped_lines"] == 0
    assert document["accesses_per_second"] > 0


def test_tokens_weigh_a_partial_block_less(trace):
    """With 5 blocks every repeat hits its two whole blocks: 1,024 of 1,224 tokens."""
    assert run(trace, "--weight", "tokens", "--capacities", "5")["hit_ratio"] == [
        pytest.approx(4 * 1024 / (6 * 1224), abs=1e-6)
    ]


def test_warm_requests_touch_and_are_not_counted(trace):
    """UD-50: comparisons start warm. After the first two requests everything hits."""
    document = run(trace, "--warm", "0.34", "--capacities", "6")

    assert (document["requests"], document["accesses"], document["warm_requests"]) == (6, 18, 2)
    assert document["hit_ratio"] == [1.0]


def test_sizes_in_gib_need_the_bytes_of_a_token(trace):
    """Without them the question has no answer; with them 6 blocks of 512 tokens of 1 MiB are 3 GiB."""
    refused = CliRunner().invoke(app, ["curve", str(trace), "--unit", "gib"])

    document = run(trace, "--unit", "gib", "--bytes-per-token", 2**20, "--capacities", "2.5,3")

    assert refused.exit_code == 2
    assert "--bytes-per-token" in refused.stderr
    assert document["capacities"] == [2.5, 3]
    assert document["hit_ratio"] == [pytest.approx(8 / 18, abs=1e-6), pytest.approx(12 / 18, abs=1e-6)]


def test_sizes_are_answered_as_they_were_asked(trace):
    """A part of a block holds nothing, and a size beyond all blocks is an endless tier."""
    document = run(trace, "--capacities", "0,5.9,5,1e20")

    assert document["capacities"] == [0, 5.9, 5, 10**20]
    nothing, part, whole, endless = document["hit_ratio"]
    assert (nothing, part) == (0, whole)
    assert endless == document["infinite_hit_ratio"]


def test_sizes_are_chosen_where_none_are_asked_for(fixtures):
    """They rise to the number of distinct blocks, where the hit ratio is that of an endless tier."""
    document = run(fixtures / "traces" / "conversations.jsonl")

    sizes = document["capacities"]
    assert len(sizes) > 10
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == document["unique_blocks"]
    assert document["hit_ratio"][-1] == document["infinite_hit_ratio"]


def test_tokens_after_the_last_whole_block_are_asked_for_and_never_hit(tmp_path):
    """A trace that keeps whole blocks alone: 512 of 700 tokens hit the second time."""
    path = tmp_path / "trace.jsonl"
    row = {"timestamp": 0, "input_length": 700, "output_length": 1, "hash_ids": [4]}
    path.write_text(f"{json.dumps(row)}\n" * 2, encoding="utf-8")

    assert run(path, "--weight", "tokens")["infinite_hit_ratio"] == 512 / 1400


@pytest.mark.parametrize(
    "wrong",
    [
        ("--capacities", "1,,2"),
        ("--capacities", "-1"),
        ("--capacities", "nan"),
        ("--warm", "1"),
        ("--warm", "nan"),
        ("--unit", "pages"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(trace, wrong):
    """Exit status 2, with the value in the message."""
    result = CliRunner().invoke(app, ["curve", str(trace), *wrong])

    assert result.exit_code == 2
    assert wrong[1] in result.stderr


def test_bad_lines_left_out_are_counted_in_both_outputs(trace):
    """The rest is measured as if they had not been there."""
    whole = run(trace)
    with trace.open("a", encoding="utf-8") as file:
        file.write("{nonsense\n")

    document = run(trace, "--skip-bad")
    table = CliRunner().invoke(app, ["curve", str(trace), "--skip-bad"])

    assert document["skipped_lines"] == 1
    assert document["hit_ratio"] == whole["hit_ratio"]
    assert "bad lines left out: 1" in table.stdout


def test_a_broken_trace_ends_the_command_with_status_1(trace, monkeypatch, capsys):
    """What, where and fix stand on stderr, each on its own line; nothing stands on stdout."""
    trace.write_text("{nonsense\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["tierscope", "curve", str(trace), "--json"])

    with pytest.raises(SystemExit) as ended:
        main.run()

    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert out == ""
    assert "not a request" in err
    assert f"{trace}, line 1" in err


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """Two sessions that ask the same things at the same times of their own, in Parquet."""
    path = tmp_path / "sessions.parquet"
    columns = {
        "session": [0, 0, 1, 1],
        "ts_ms": [0, 60_000, 0, 60_000],
        "input_length": [640, 1280, 640, 1280],
        "output_length": [1] * 4,
        "block_ids": [[*range(10)], [*range(20)], [*range(20, 30)], [*range(20, 40)]],
    }
    pq.write_table(pa.table(columns), path)
    return path


def test_times_of_their_own_warn_until_sessions_are_spread(sessions):
    """In file order one session follows the other; the warning says so on stderr, not in the document."""
    alone = CliRunner().invoke(app, ["curve", str(sessions), "--json"])
    spread = CliRunner().invoke(app, ["curve", str(sessions), "--spread-sessions", "1e-9", "--json"])

    assert "--spread-sessions HOURS" in alone.stderr.replace("\n", " ")
    assert spread.stderr == ""
    assert json.loads(alone.stdout)["requests"] == json.loads(spread.stdout)["requests"] == 4


def test_sessions_side_by_side_need_room_for_all_of_them(sessions):
    """In turn, ten blocks are room enough for each of them; side by side they need more."""
    ten_and_twenty = ("--capacities", "10,20")

    in_turn = run(sessions, *ten_and_twenty)["hit_ratio"]
    side_by_side = run(sessions, *ten_and_twenty, "--spread-sessions", "1e-9")["hit_ratio"]

    assert in_turn == [20 / 60, 20 / 60]
    assert side_by_side[0] < side_by_side[1] <= in_turn[1]


def test_people_get_a_table(trace):
    """The table names the weight and ends with the endless tier."""
    result = CliRunner().invoke(app, ["curve", str(trace)])

    assert result.exit_code == 0
    assert "endless" in result.stdout
    assert "6 requests" in result.stdout
