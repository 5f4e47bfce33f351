"""Three tiers over replicas against caches that are replayed one by one, and what holds for any of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_policies
from tests.strategies import prefix_forest_paths
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Trace
from tierscope.sim.fleet import TierSizes, as_lmcache, inclusive, workload_of
from tierscope.sim.lmcache import Rules
from tierscope.sim.paths import block_paths, blocks_a_chunk, chunk_paths, with_answers

BLOCK = 16


def trace_of(lists, *, tail=3, output=0, session=None) -> Trace:
    """Prompts of whole blocks and a tail, one a second."""
    lengths = [len(path) for path in lists]
    n = len(lists)
    return Trace(
        name="generated",
        block_tokens=BLOCK,
        at_ms=np.arange(n, dtype=np.int64) * 1000,
        input_tokens=np.array(lengths, np.int64) * BLOCK + tail,
        output_tokens=np.full(n, output, np.int64),
        session=np.full(n, -1, np.int32) if session is None else np.array(session, np.int32),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        block_ids=np.array([block for path in lists for block in path], np.int32),
    )


def naive_split(lists, placement, sizes, per_chunk):
    """(l0, l1, l2, computed) of each request, every cache replayed alone."""
    chunked = [[path[k] for k in range(per_chunk - 1, len(path), per_chunk)] for path in lists]
    l0, l1 = [0] * len(lists), [0] * len(lists)
    for replica in set(placement):
        mine = [i for i, holder in enumerate(placement) if holder == replica]
        for depths, paths, size in ((l0, lists, sizes.l0_blocks), (l1, chunked, sizes.l1_chunks)):
            for i, hit in zip(mine, naive_policies.lru([paths[i] for i in mine], size), strict=True):
                depths[i] = hit
    l2 = naive_policies.lru(chunked, sizes.l2_chunks)
    split = []
    for i, path in enumerate(lists):
        first = l0[i]
        second = max(first, l1[i] * per_chunk)
        third = max(second, l2[i] * per_chunk)
        prompt = len(path) * BLOCK + 3
        split.append(
            (first * BLOCK, (second - first) * BLOCK, (third - second) * BLOCK, prompt - third * BLOCK)
        )
    return split


@given(lists=prefix_forest_paths(), data=st.data())
def test_each_prompt_is_split_as_replayed_caches_split_it(lists, data):
    """Any sizes, chunks and placement; nothing is lost, nothing counted twice."""
    replicas = data.draw(st.integers(1, 3))
    placement = [data.draw(st.integers(0, replicas - 1)) for _ in lists]
    per_chunk = data.draw(st.integers(1, 3))
    l0, l1, l2 = (data.draw(st.integers(0, 20)) for _ in range(3))
    sizes = TierSizes(l0_blocks=l0, l1_chunks=l1, l2_chunks=l2)

    workload = workload_of(
        trace_of(lists), np.array(placement, np.int32), replicas, chunk_tokens=per_chunk * BLOCK
    )
    split = inclusive(workload, sizes)

    found = list(zip(*(part.tolist() for part in split), strict=True))
    assert found == naive_split(lists, placement, sizes, per_chunk)


@given(lists=prefix_forest_paths(), data=st.data())
def test_real_rules_conserve_tokens_and_never_beat_endless_tiers(lists, data):
    """Whatever LMCache refuses and drops: every prompt adds up, and no more hits than with room for all."""
    placement = np.array([data.draw(st.integers(0, 1)) for _ in lists], np.int32)
    workload = workload_of(trace_of(lists), placement, 2, chunk_tokens=2 * BLOCK)
    rules = Rules(data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12)))
    endless = inclusive(workload, TierSizes(l0_blocks=99, l1_chunks=99, l2_chunks=99))

    split = as_lmcache(workload, data.draw(st.integers(0, 12)), rules)

    assert np.array_equal(sum(split), workload.trace.input_tokens)
    assert all(part.min(initial=0) >= 0 for part in split)
    assert np.all(split.computed >= endless.computed)


def test_the_last_token_of_a_prompt_is_always_computed():
    """Of a prompt that ends on a block, an engine computes that block again; a load gives all but a token."""
    workload = workload_of(trace_of([[0, 1], [0, 1]], tail=0), np.zeros(2, np.int32), 1, chunk_tokens=BLOCK)

    only_l0 = inclusive(workload, TierSizes(l0_blocks=9, l1_chunks=0, l2_chunks=0))
    all_three = inclusive(workload, TierSizes(l0_blocks=9, l1_chunks=9, l2_chunks=0))

    assert [int(part[1]) for part in only_l0] == [BLOCK, 0, 0, BLOCK]
    assert [int(part[1]) for part in all_three] == [BLOCK, BLOCK - 1, 0, 1]


def test_an_answer_is_hit_by_the_next_turn():
    """The second prompt brings back two blocks of answer; all but the last token of it were cached."""
    lists = [[0, 1], [0, 1, 2, 3, 4]]
    trace = trace_of(lists, tail=0, output=2 * BLOCK + 1, session=[0, 0])
    sizes = TierSizes(l0_blocks=99, l1_chunks=0, l2_chunks=0)

    with_them, without = (
        inclusive(workload_of(trace, np.zeros(2, np.int32), 1, chunk_tokens=BLOCK, answers=answers), sizes)
        for answers in (True, False)
    )

    assert with_answers(block_paths(trace), trace).ids.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6]
    assert (int(with_them.l0[1]), int(without.l0[1])) == (4 * BLOCK, 2 * BLOCK)


def test_another_sessions_prompt_tells_nothing_about_an_answer():
    """Only a session's own next turn, and only one that begins with the whole prompt before it."""
    lists = [[0, 1], [0, 1, 2], [0, 3, 4]]
    trace = trace_of(lists, output=BLOCK, session=[0, 1, 0])

    assert with_answers(block_paths(trace), trace).ids.tolist() == [0, 1, 5, 0, 1, 2, 6, 0, 3, 4, 7]


def test_an_answer_that_nobody_asks_for_again_takes_room():
    """Two blocks that decoding filled push out what was there: the third prompt finds one of two blocks."""
    trace = trace_of([[0, 1], [2, 3], [0, 1]], output=2 * BLOCK)
    placement = np.zeros(3, np.int32)
    sizes = TierSizes(l0_blocks=5, l1_chunks=0, l2_chunks=0)

    with_them, without = (
        inclusive(workload_of(trace, placement, 1, chunk_tokens=BLOCK, answers=answers), sizes)
        for answers in (True, False)
    )

    assert (int(with_them.l0[2]), int(without.l0[2])) == (BLOCK, 2 * BLOCK)


def test_a_chunk_is_named_by_its_last_block_and_a_tail_is_no_chunk():
    """Five blocks in chunks of two are two chunks; ids are numbered anew."""
    paths = chunk_paths(block_paths(trace_of([[0, 1, 2, 3, 4], [0, 1]])), 2)

    assert (paths.offsets.tolist(), paths.ids.tolist(), paths.n_ids) == ([0, 2, 3], [0, 1, 0], 2)
    assert blocks_a_chunk(256, 48) == 6


@pytest.mark.parametrize("placement", [[0], [0, 2], [0, -1]])
def test_a_placement_that_does_not_fit_is_refused(placement):
    """One replica a request, of those that there are."""
    with pytest.raises(BadInput, match="cannot be placed"):
        workload_of(trace_of([[0], [1]]), np.array(placement, np.int32), 2, chunk_tokens=BLOCK)
