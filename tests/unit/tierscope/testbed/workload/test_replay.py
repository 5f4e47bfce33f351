"""A recorded trace as traffic."""

from __future__ import annotations

import numpy as np
import pytest

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace
from tierscope.testbed import Testbed, TestbedConfig
from tierscope.testbed.workload.replay import TraceWorkload

PATIENCE_SECONDS = 60.0


def trace(*paths, at_ms=None, tokens=None, block_tokens=4, **changes):
    """A trace of block paths; every block full unless `tokens` says less."""
    n = len(paths)
    return Trace(
        name="tiny",
        block_tokens=block_tokens,
        at_ms=np.array(at_ms if at_ms is not None else np.arange(n) * 1000, np.int64),
        input_tokens=np.array(tokens or [len(path) * block_tokens for path in paths], np.int64),
        output_tokens=np.full(n, 3, np.int64),
        session=np.full(n, -1, np.int32),
        offsets=np.cumsum([0, *map(len, paths)], dtype=np.int64),
        block_ids=np.array([block for path in paths for block in path], np.int32),
        **changes,
    )


def arrivals(found, **options):
    source = TraceWorkload(found, seed=1, **({"until_seconds": None} | options))
    requests = []
    while request := source.next_arrival():
        requests.append(request)
    return requests


def test_equal_paths_have_equal_hashes_and_no_others_do():
    """A block's hash is a name for its path."""
    first, second, third = arrivals(trace([0, 1, 2], [0, 1, 3], [4]))

    assert list(first.hashes[:2]) == list(second.hashes[:2])
    assert len({first.hashes[2], second.hashes[2], third.hashes[0]}) == 3


def test_a_partial_last_block_has_no_hash():
    """Only full blocks are named; the tail of a prompt is not."""
    (request,) = arrivals(trace([0, 1, 2], tokens=[9]))

    assert request.prompt_tokens == 9
    assert len(request.digests) == 2
    assert len(request.hashes) == (9 + 3 - 1) // 4


def test_file_order_is_kept_and_time_never_falls():
    """Requests come in the order of the file; one that lies back in time comes with its predecessor."""
    requests = arrivals(trace([0], [1], [2], at_ms=[0, 5000, 2000]))

    assert [request.at_seconds for request in requests] == [0.0, 5.0, 5.0]


def test_session_relative_times_are_refused():
    """A trace whose sessions all start at 0 is no traffic yet."""
    with pytest.raises(BadInput, match="start at 0 in every session"):
        TraceWorkload(trace([0], session_relative_times=True), seed=1, until_seconds=None)


def test_a_replayed_trace_is_served_whole():
    """Every request of the trace is admitted, the second time a path comes from the cache."""
    paths = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 4]]
    config = TestbedConfig(replicas=1, speed=100.0, duration_seconds=None)

    with Testbed(config, trace(*paths, block_tokens=512)) as testbed:
        assert testbed.wait(PATIENCE_SECONDS)
        sent = testbed.sent()

    assert sent.prompt == 11 * 512
    assert sent.l0 == (3 + 2) * 512
    assert testbed.config.tokens_per_chunk == 512
