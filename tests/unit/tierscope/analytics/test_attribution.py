"""Joint depths against caches that are really replayed, and the credit rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive, workloads
from tests.strategies import prefix_forest_paths
from tierscope.analytics.attribution import joint_streams
from tierscope.domain.errors import BadInput
from tierscope.domain.split import split_tokens, whole_blocks_below

BLOCK = workloads.BLOCK_TOKENS
placements = st.lists(st.integers(0, 2), min_size=14, max_size=14)


def window_of(paths, engine, *, chunk_tokens=BLOCK):
    """A window whose hashes are the paths' numbers, on three replicas."""
    chains = [np.array(path, dtype=np.uint64) + np.uint64(1) for path in paths]
    return workloads.window(chains, replicas=3, engine=engine[: len(paths)], chunk_tokens=chunk_tokens)


def chunks_of(paths, per_chunk):
    return [path[per_chunk - 1 :: per_chunk] for path in paths]


@given(
    paths=prefix_forest_paths(), engine=placements, capacity=st.integers(1, 12), per_chunk=st.integers(1, 3)
)
def test_every_tier_hits_as_its_own_replayed_caches_do(paths, engine, capacity, per_chunk):
    """L0 by engine in blocks, L1 by replica and L2 over all in whole chunks: as three sets of real caches."""
    streams = joint_streams(window_of(paths, engine, chunk_tokens=per_chunk * BLOCK), per_chunk * BLOCK)
    sizes = np.array([capacity])

    for stream, units, owner in (
        (streams.l0, paths, engine),
        (streams.l1, chunks_of(paths, per_chunk), engine),
        (streams.l2, chunks_of(paths, per_chunk), [0] * len(engine)),
    ):
        expected = np.zeros(len(paths), dtype=np.int64)
        for holder in range(3):
            mine = [i for i in range(len(paths)) if owner[i] == holder]
            expected[mine] = naive.hits_by_replaying_a_cache([units[i] for i in mine], capacity)
        found = stream.hit_tokens(sizes)[:, 0] if paths else np.zeros(0)
        assert found.tolist() == (expected * stream.unit_tokens).tolist()


@given(paths=prefix_forest_paths(), engine=placements, capacity=st.integers(1, 12))
def test_an_l1_of_own_chunks_hits_as_the_replayed_one(paths, engine, capacity):
    """Only what a replica was the first to be asked for is in its L1; a path counts up to the first gap."""
    streams = joint_streams(window_of(paths, engine), BLOCK)

    found = streams.l1_own.hit_tokens(np.array([capacity]))[:, 0] // BLOCK
    assert found.tolist() == naive.hits_of_own_units(paths, engine[: len(paths)], capacity)


@given(paths=prefix_forest_paths(), engine=placements)
def test_a_footprint_counts_what_each_holder_was_asked_for(paths, engine):
    """Distinct units a holder saw, over all requests and over a part of them."""
    streams = joint_streams(window_of(paths, engine), BLOCK)
    half = len(paths) // 2

    assert streams.l2.footprint_units().tolist() == [len({b for path in paths for b in path})]
    assert streams.l2.footprint_units(half).tolist() == [len({b for path in paths[:half] for b in path})]


def test_a_token_is_credited_to_the_first_tier_that_has_it():
    """Overlaps go up, the last token is always computed, and the parts sum to the prompt."""
    prompt = np.array([100, 100, 100, 65])
    split = split_tokens(
        prompt, np.array([32, 0, 64, 64]), np.array([64, 64, 32, 0]), np.array([64, 96, 100, 200])
    )

    assert split.l0.tolist() == [32, 0, 64, 64]
    assert split.l1.tolist() == [32, 64, 0, 0]
    assert split.l2.tolist() == [0, 32, 35, 0]
    assert (sum(split) == prompt).all()


def test_l0_leaves_the_last_token_of_a_prompt_of_whole_blocks():
    """An exact repeat of four blocks hits three of them; one token more and it hits four."""
    below = whole_blocks_below(np.array([64, 65]), np.array([64, 64]), 16)

    assert below.tolist() == [48, 64]


def test_a_chunk_that_is_no_whole_number_of_blocks_is_refused():
    """Nobody could say which blocks such a chunk stands for."""
    with pytest.raises(BadInput, match="not a whole number of blocks"):
        joint_streams(workloads.window(workloads.cycle(2, 4)), 40)
