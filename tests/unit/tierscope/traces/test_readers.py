"""Trace files: what is read, and what each broken line is called."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import prefix_forest_paths
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace
from tierscope.traces.open import read_trace
from tierscope.traces.sessions import spread_sessions

GOOD = [
    {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [40, 7]},
    {"timestamp": 3, "input_length": 1024, "output_length": 0, "hash_ids": [40, 900_000_000_000]},
    {"timestamp": 3, "input_length": 1, "output_length": 2, "hash_ids": [8]},
]
LATER = [
    {"timestamp": 10, "input_length": 513, "output_length": 1, "hash_ids": [8, 5]},
    {"timestamp": 11, "input_length": 2, "output_length": 1, "hash_ids": [8]},
]


def jsonl(path: Path, rows: list[dict[str, object] | str]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def paths_of(trace: Trace) -> list[list[int]]:
    return [
        trace.block_ids[start:end].tolist()
        for start, end in zip(trace.offsets, trace.offsets[1:], strict=False)
    ]


def test_a_mooncake_trace_is_read_in_file_order_with_dense_ids(tmp_path):
    """Equal ids stay equal, and large ids cost no memory."""
    trace = read_trace(jsonl(tmp_path / "trace.jsonl", GOOD))

    assert trace.requests == 3
    assert trace.accesses == 5
    assert trace.block_tokens == 512
    assert trace.at_ms.tolist() == [0, 3, 3]
    assert paths_of(trace) == [[2, 0], [2, 3], [1]]
    assert not trace.session_relative_times


def test_a_compressed_trace_is_told_by_its_bytes_not_its_name(tmp_path):
    """A gzip file may be called anything."""
    path = tmp_path / "trace.data"
    path.write_bytes(gzip.compress(jsonl(tmp_path / "trace.jsonl", GOOD).read_bytes()))

    assert read_trace(path).requests == 3


BROKEN = {
    "no JSON": ("{nonsense", "line 4", "not a request"),
    "a missing field": (
        {"timestamp": 9, "input_length": 4, "hash_ids": [1]},
        "field output_length",
        "missing required",
    ),
    "a wrong type": ({**GOOD[2], "timestamp": 9, "hash_ids": ["x"]}, "field hash_ids[0]", "not a request"),
    "a fraction": ({**GOOD[2], "timestamp": 9.5}, "field timestamp", "not a request"),
    "a negative time": ({**GOOD[2], "timestamp": -1}, "line 4, field timestamp", "negative timestamp"),
    "time backwards": ({**GOOD[2], "timestamp": 2}, "line 4, field timestamp", "time runs backwards"),
    "no tokens": (
        {**GOOD[2], "timestamp": 9, "input_length": 0},
        "field input_length",
        "a prompt of 0 tokens",
    ),
    "too few blocks": ({**GOOD[2], "timestamp": 9, "input_length": 1024}, "field hash_ids", "do not fit"),
    "too many blocks": ({**GOOD[2], "timestamp": 9, "hash_ids": [8, 9]}, "field hash_ids", "do not fit"),
    "a block of two prefixes": (
        {"timestamp": 9, "input_length": 1024, "output_length": 1, "hash_ids": [8, 7]},
        "line 4, field hash_ids",
        "block 7 follows another block",
    ),
    "a block that follows itself": (
        {"timestamp": 9, "input_length": 1024, "output_length": 1, "hash_ids": [9, 9]},
        "line 4, field hash_ids",
        "block 9 follows another block",
    ),
    "a time beyond 64 bits": ({**GOOD[2], "timestamp": 2**64}, "line 4, field timestamp", "not a request"),
    "a time far ahead": ({**GOOD[2], "timestamp": 10**15}, "line 4, field timestamp", "out of order"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_line_is_named_with_its_field_and_a_fix(tmp_path, case):
    """Each kind of broken line says file, line, field, and what to do."""
    row, where, what = BROKEN[case]
    path = jsonl(tmp_path / "trace.jsonl", [*GOOD, row, *LATER])

    with pytest.raises(BadInput) as refused:
        read_trace(path)

    assert what in str(refused.value)
    assert where in refused.value.where
    assert str(path) in refused.value.where
    assert "--skip-bad" in refused.value.fix or "--block-tokens" in refused.value.fix


@pytest.mark.parametrize("case", BROKEN)
def test_with_skip_bad_a_broken_line_is_left_out_and_counted(tmp_path, case):
    """The good lines before and after it are all there."""
    row, _, _ = BROKEN[case]

    trace = read_trace(jsonl(tmp_path / "trace.jsonl", [*GOOD, row, *LATER]), skip_bad=True)

    assert trace.skipped_lines == 1
    assert trace.at_ms.tolist() == [0, 3, 3, 10, 11]
    assert paths_of(trace) == [[3, 1], [3, 4], [2], [2, 0], [2]]


def test_the_first_bad_line_is_named_and_how_many_there_are(tmp_path):
    """A later line that breaks a rule checked earlier does not hide it."""
    rows = [GOOD[0], {**GOOD[1], "input_length": 9_000}, {**GOOD[2], "timestamp": -1}]

    with pytest.raises(BadInput, match="2 blocks of 512 tokens do not fit a prompt of 9000") as refused:
        read_trace(jsonl(tmp_path / "trace.jsonl", rows))

    assert "line 2" in refused.value.where
    assert "bad lines: 2" in refused.value.fix


def test_ids_of_lines_left_out_take_no_number(tmp_path):
    """Ids are dense among the lines that stay."""
    bad = {"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1, 2, 3]}

    trace = read_trace(jsonl(tmp_path / "trace.jsonl", [bad, *GOOD]), skip_bad=True)

    assert paths_of(trace) == [[2, 0], [2, 3], [1]]


def test_a_trace_of_bad_lines_alone_is_refused(tmp_path):
    """Nothing is left to answer from, and the error says why."""
    path = jsonl(tmp_path / "trace.jsonl", ["{", {**GOOD[2], "timestamp": -1}])

    with pytest.raises(BadInput, match="no request after 2 bad ones"):
        read_trace(path, skip_bad=True)


def test_ids_may_be_64_bit_hashes(tmp_path):
    """Unsigned 64-bit hashes stay apart; they are numbered like any other id."""
    row = {"timestamp": 0, "input_length": 1536, "output_length": 1, "hash_ids": [2**64 - 1, 2**63, 0]}

    assert sorted(paths_of(read_trace(jsonl(tmp_path / "trace.jsonl", [row])))[0]) == [0, 1, 2]


def test_a_truncated_gzip_says_so_and_its_whole_lines_can_be_used(tmp_path):
    """What was read before the cut counts with --skip-bad, and the cut is one bad line."""
    rows = [{"timestamp": i, "input_length": 9, "output_length": 1, "hash_ids": [i]} for i in range(5000)]
    whole = gzip.compress(jsonl(tmp_path / "trace.jsonl", rows).read_bytes())
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(BadInput, match="ends too early"):
        read_trace(path)
    trace = read_trace(path, skip_bad=True)

    assert 0 < trace.requests < 5000
    assert trace.skipped_lines == 1


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_trace_is_refused(tmp_path, content):
    """A trace without requests answers no question."""
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)

    with pytest.raises(BadInput, match="holds no request"):
        read_trace(path)


def test_a_missing_file_is_named(tmp_path):
    """The path stands in the error."""
    with pytest.raises(BadInput) as refused:
        read_trace(tmp_path / "nowhere.jsonl")

    assert "nowhere.jsonl" in refused.value.where


SESSIONS = {
    "session": [1, 1, 2],
    "ts_ms": [0, 500, 0],
    "input_length": [640, 1280, 700],
    "output_length": [1, 1, 1],
    "block_ids": [list(range(10)), list(range(20)), [0, *range(30, 39)]],
}


def test_a_parquet_trace_finds_its_block_size(tmp_path):
    """64 tokens is the one power of two that fits every row, partial last blocks left out or not."""
    trace = read_trace(parquet(tmp_path / "trace.parquet", **SESSIONS))

    assert trace.block_tokens == 64
    assert trace.session_relative_times
    assert np.diff(trace.offsets).tolist() == [10, 20, 10]


def test_a_block_size_that_cannot_be_told_is_asked_for(tmp_path):
    """One short prompt fits many block sizes; saying it settles the matter."""
    columns = {
        **{name: values[:1] for name, values in SESSIONS.items()},
        "input_length": [9],
        "block_ids": [[1]],
    }
    path = parquet(tmp_path / "trace.parquet", **columns)

    with pytest.raises(BadInput, match="block size cannot be told"):
        read_trace(path)
    assert read_trace(path, block_tokens=16).block_tokens == 16


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        ({"input_length": ["a", "b", "c"]}, "field input_length", "input_length holds string"),
        ({"block_ids": [[0.5], [1.5], [2.5]]}, "field block_ids", "block_ids holds list"),
        ({"block_ids": [1, 2, 3]}, "field block_ids", "block_ids holds int64"),
        ({"ts_ms": [[0], [0], [0]]}, "field ts_ms", "ts_ms holds list"),
    ],
)
def test_a_parquet_column_of_another_type_is_named(tmp_path, change, where, what):
    """The field and what it holds stand in the error; no row of it could be used."""
    path = parquet(tmp_path / "trace.parquet", **SESSIONS | change)

    with pytest.raises(BadInput, match=what) as refused:
        read_trace(path, skip_bad=True)

    assert where in refused.value.where


BROKEN_ROWS = {
    "a time that is missing": ({"ts_ms": [0, None, 0]}, "row 2, field ts_ms", "ts_ms has no value"),
    "no blocks at all": ({"block_ids": [list(range(10)), None, [0]]}, "row 2, field block_ids", "no value"),
    "a block that is missing": (
        {"block_ids": [list(range(10)), [*range(19), None], [0, *range(30, 39)]]},
        "row 2, field block_ids",
        "block_ids has no value",
    ),
    "time backwards in a session": ({"ts_ms": [500, 0, 0]}, "row 2, field ts_ms", "time runs backwards"),
    "a negative time": ({"ts_ms": [0, -5, 0]}, "row 2, field ts_ms", "negative timestamp: -5 ms"),
    "a session below -1": ({"session": [1, -2, 2]}, "row 2, field session", "a session numbered -2"),
    "a session beyond int32": ({"session": [1, 2**40, 2]}, "row 2, field session", "a session numbered"),
}


@pytest.mark.parametrize("case", BROKEN_ROWS)
def test_a_broken_parquet_row_is_named_in_the_formats_own_words_or_left_out(tmp_path, case):
    """Row and column stand in the error; --skip-bad counts it and keeps the rest."""
    change, where, what = BROKEN_ROWS[case]
    path = parquet(tmp_path / "trace.parquet", **SESSIONS | change)

    with pytest.raises(BadInput, match=what) as refused:
        read_trace(path, block_tokens=64)
    trace = read_trace(path, block_tokens=64, skip_bad=True)

    assert where in refused.value.where
    assert trace.skipped_lines >= 1
    assert trace.at_ms[0] == SESSIONS["ts_ms"][0] or case.startswith("time")


def test_parquet_of_other_widths_and_many_row_groups_is_read_alike(tmp_path):
    """What polars writes (large lists, unsigned numbers) and what pyarrow writes are one trace."""
    plain = read_trace(parquet(tmp_path / "plain.parquet", **SESSIONS))
    lists = pa.array(SESSIONS["block_ids"], pa.large_list(pa.uint64()))
    path = tmp_path / "large.parquet"
    columns = {**SESSIONS, "ts_ms": pa.array(SESSIONS["ts_ms"], pa.uint32()), "block_ids": lists}
    pq.write_table(pa.table(columns), path, row_group_size=2)

    assert paths_of(read_trace(path)) == paths_of(plain)
    assert read_trace(path).at_ms.tolist() == plain.at_ms.tolist()


def test_an_empty_or_damaged_parquet_file_is_refused(tmp_path):
    """No rows, and a file cut in half, are told apart."""
    whole = parquet(tmp_path / "trace.parquet", **SESSIONS)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:200])
    empty = tmp_path / "empty.parquet"
    pq.write_table(pq.read_table(whole).slice(0, 0), empty)

    with pytest.raises(BadInput, match="not a readable Parquet file"):
        read_trace(cut)
    with pytest.raises(BadInput, match="holds no request"):
        read_trace(empty)


@given(paths=prefix_forest_paths(), data=st.data())
def test_a_trace_written_is_the_trace_read(tmp_path_factory, paths, data):
    """Forests of any shape come back from both formats, block by block."""
    paths = [path for path in paths if path]
    assume(paths)
    prompts = [16 * len(path) - data.draw(st.integers(0, 15)) for path in paths]
    rows = [
        {"timestamp": 7 * i, "input_length": tokens, "output_length": i, "hash_ids": path}
        for i, (path, tokens) in enumerate(zip(paths, prompts, strict=True))
    ]
    columns = {
        "session": [-1] * len(rows),
        "ts_ms": [row["timestamp"] for row in rows],
        "input_length": prompts,
        "output_length": [row["output_length"] for row in rows],
        "block_ids": paths,
    }
    folder = tmp_path_factory.mktemp("written")

    for path in (
        jsonl(folder / "trace.jsonl", rows),
        parquet(folder / "trace.parquet", **columns),
    ):
        trace = read_trace(path, block_tokens=16)
        distinct = sorted({block for blocks in paths for block in blocks})
        assert paths_of(trace) == [[distinct.index(block) for block in blocks] for blocks in paths]
        assert trace.at_ms.tolist() == columns["ts_ms"]
        assert trace.input_tokens.tolist() == prompts
        assert trace.output_tokens.tolist() == columns["output_length"]
        assert set(trace.session.tolist()) == {-1}


def test_a_parquet_file_without_our_columns_says_which_it_has(tmp_path):
    """Missing columns are listed, and so are those found."""
    with pytest.raises(BadInput, match="session, ts_ms") as refused:
        read_trace(parquet(tmp_path / "trace.parquet", other=[1]))

    assert "other" in refused.value.where


def test_spreading_starts_sessions_where_the_seed_says_and_keeps_their_order():
    """Starts follow numpy's generator in order of session id, cut to milliseconds."""
    trace = Trace(
        name="made",
        block_tokens=4,
        at_ms=np.array([0, 500, 0], dtype=np.int64),
        input_tokens=np.array([8, 12, 4], dtype=np.int64),
        output_tokens=np.ones(3, dtype=np.int64),
        session=np.array([7, 7, 3], dtype=np.int32),
        offsets=np.array([0, 2, 5, 6], dtype=np.int64),
        block_ids=np.array([0, 1, 0, 1, 2, 3], dtype=np.int32),
        session_relative_times=True,
    )
    first, second = (int(ms) for ms in np.random.default_rng(5).uniform(0, 2 * 3.6e6, 2))

    spread = spread_sessions(trace, hours=2, seed=5)

    expected = sorted([(first, [3]), (second, [0, 1]), (second + 500, [0, 1, 2])])
    assert list(zip(spread.at_ms.tolist(), paths_of(spread), strict=True)) == expected
    assert not spread.session_relative_times


def test_a_trace_without_sessions_cannot_be_spread(tmp_path):
    """There is nothing to overlay."""
    with pytest.raises(BadInput, match="without a session"):
        spread_sessions(read_trace(jsonl(tmp_path / "trace.jsonl", GOOD)), hours=1, seed=1)
