"""A trace as evidence: the records a deployment would have left."""

from __future__ import annotations

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.document import Status
from tierscope.advice.recommend import recommend
from tierscope.advice.replay import replayed
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace


def trace_of(documents: int, requests: int, *, skipped_lines: int = 0) -> Trace:
    """Documents of four full blocks and a half, asked for in turn; sessions are documents."""
    document = np.arange(requests) % documents
    ids = (document[:, None] * 5 + np.arange(5)).astype(np.int32)
    return Trace(
        name="made up",
        block_tokens=512,
        at_ms=np.arange(requests, dtype=np.int64) * 1000,
        input_tokens=np.full(requests, 4 * 512 + 256, dtype=np.int64),
        output_tokens=np.ones(requests, dtype=np.int64),
        session=document.astype(np.int32),
        offsets=np.arange(requests + 1, dtype=np.int64) * 5,
        block_ids=ids.ravel(),
        skipped_lines=skipped_lines,
    )


def test_a_trace_is_advised_on_like_records():
    """Forty documents of four blocks: an L1 of 160 blocks is what is needed."""
    block_bytes = 512 * w.BYTES_PER_TOKEN
    evidence, deployment = replayed(trace_of(40, 1000), w.deployment(80 * block_bytes, l1_keeps_loads=None))
    document = recommend(evidence, deployment, now_unix_seconds=w.NOW)

    [change] = document.changes
    assert document.status is Status.RECOMMEND
    assert change.to == 160 * block_bytes
    assert deployment.l1_keeps_loads is True


def test_partial_blocks_are_no_part_of_a_chain():
    """Only full blocks are cached; a chunk is 256 tokens in whole blocks."""
    evidence, _ = replayed(trace_of(2, 3), w.deployment(w.CHUNK_BYTES))

    assert np.diff(evidence.window.offsets).tolist() == [4, 4, 4]
    assert evidence.window.chunk_tokens == 512


def test_requests_go_to_replicas_in_turn_or_by_session():
    """The two placements that do not look at caches."""
    trace = trace_of(2, 6)
    in_turn, _ = replayed(trace, w.deployment(w.CHUNK_BYTES, replicas=3))
    by_session, _ = replayed(trace, w.deployment(w.CHUNK_BYTES, replicas=3, routing=RoutingPolicy.SESSION))

    assert in_turn.window.engine.tolist() == [0, 1, 2, 0, 1, 2]
    assert by_session.window.engine.tolist() == [0, 1, 0, 1, 0, 1]


def test_skipped_lines_make_the_records_incomplete():
    """A trace of which lines were skipped says how much of it is left."""
    evidence, deployment = replayed(trace_of(40, 900, skipped_lines=100), w.deployment(80 * w.CHUNK_BYTES))
    document = recommend(evidence, deployment, now_unix_seconds=w.NOW)

    assert document.evidence.completeness_ratio == 0.9
    assert document.status is Status.INSUFFICIENT_EVIDENCE


def test_bytes_a_token_have_to_be_given():
    """A trace holds no bytes, so no size follows from it alone."""
    with pytest.raises(BadInput) as caught:
        replayed(trace_of(2, 3), w.deployment(w.CHUNK_BYTES, bytes_per_token=None))

    assert "131072" in caught.value.fix
