"""LMCache's lookup logs as traces: one of a server, and lines as LMCache inside an engine writes them."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.naive import hits_by_replaying_a_cache
from tierscope.domain.errors import BadInput
from tierscope.traces.open import read_trace


@pytest.fixture
def recorded(captures):
    return captures / "lmcache" / "mp_pull" / "lookup_hashes.jsonl"


@pytest.fixture
def log(tmp_path):
    """Return a function that writes lines as LMCache inside an engine does."""

    def write(*lines):
        path = tmp_path / "chunk_hashes_1_000000.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    return write


def line(at, *chunks, **fields):
    return {"timestamp": at, "lookup_id": "r", "chunk_hashes": [hex(chunk) for chunk in chunks], **fields}


def test_a_servers_log_is_read_with_its_own_chunk_size(recorded):
    """37 lookups of 9,970 tokens, of which 150 chunks of 64 are whole; time begins with the first."""
    trace = read_trace(recorded)

    assert (trace.requests, trace.accesses, trace.block_tokens) == (37, 150, 64)
    assert int(trace.input_tokens.sum()) == 9970
    assert trace.at_ms[:3].tolist() == [0, 621, 1033]


@pytest.mark.parametrize(("chunks", "hit_tokens"), [(4, 256), (8, 1024), (16, 1024), (32, 1280), (64, 2304)])
def test_a_tier_of_that_size_hits_what_lmcaches_own_simulator_says(recorded, chunks, hit_tokens):
    """Its simulator evicts a prompt's first chunks before its last ones, which at these sizes is the same."""
    trace = read_trace(recorded)
    paths = [trace.block_ids[a:b].tolist() for a, b in zip(trace.offsets, trace.offsets[1:], strict=False)]

    hits = hits_by_replaying_a_cache(paths, chunks)

    assert sum(hits) * 64 == hit_tokens


def test_a_log_from_inside_an_engine_tells_neither_size_nor_tail(log):
    """A prompt is as long as its chunks; one that fills none is there all the same."""
    trace = read_trace(log(line(10.0, 1, 2), line(10.5), line(11.0, 1, 3)))

    assert trace.block_tokens == 256
    assert trace.input_tokens.tolist() == [512, 1, 512]
    assert trace.at_ms.tolist() == [0, 500, 1000]
    assert trace.block_ids[0] == trace.block_ids[2]


def test_the_size_of_its_chunks_can_be_given(log):
    """As LMCACHE_CHUNK_SIZE was."""
    trace = read_trace(log(line(0.0, 1, 2)), block_tokens=64)

    assert (trace.block_tokens, trace.input_tokens.tolist()) == (64, [128])


def test_hashes_of_any_length_count_by_their_last_64_bits(log):
    """As block hashes do everywhere, whatever the algorithm."""
    trace = read_trace(log(line(0.0, 2**255 + 5), line(1.0, 5)))

    assert trace.block_ids.tolist() == [0, 0]


def test_it_may_be_compressed(recorded, tmp_path):
    """Like every trace of lines."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(recorded.read_bytes()))

    assert read_trace(path).requests == 37


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ({"timestamp": 1.0, "chunk_hashes": ["nonsense"]}, "field chunk_hashes"),
        ({"timestamp": "now", "chunk_hashes": []}, "field timestamp"),
        ({"chunk_hashes": []}, "field timestamp"),
    ],
)
def test_a_broken_line_is_named_or_left_out(log, bad, where):
    """With its number and its field."""
    path = log(line(0.0, 1), bad, line(2.0, 2))

    with pytest.raises(BadInput) as caught:
        read_trace(path)
    assert caught.value.where.endswith(f"line 2, {where}")
    assert read_trace(path, skip_bad=True).skipped_lines == 1


def test_a_log_over_a_change_of_the_chunk_size_is_refused(log):
    """Its chunks cannot be compared."""
    path = log(line(0.0, 1, chunk_size=64, seq_len=64), line(1.0, 2, chunk_size=128, seq_len=128))

    with pytest.raises(BadInput, match="chunks of 64, 128 tokens"):
        read_trace(path)
