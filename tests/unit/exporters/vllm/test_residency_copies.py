"""Several copies of one block, copies told again, and blocks whose ancestors are gone."""

from __future__ import annotations

import pytest

from exporters.vllm import pools
from exporters.vllm.events import BlocksCleared, BlocksStored, ChangeBatch
from exporters.vllm.pools import Held
from exporters.vllm.residency import Residency
from tests.cache_changes import apply, removed, stored
from tierscope.domain.events import BlockAction
from tierscope.domain.tiers import Tier


@pytest.fixture
def residency():
    return Residency(holder="ns/chat/pod-0/0", where="events of pod-0")


def test_a_second_copy_of_a_block_outlives_the_first(residency):
    """A hash in two physical blocks is resident until both are gone."""
    apply(residency, stored(1), stored(2, parent=1), stored(2, parent=1))
    apply(residency, removed(2))
    assert residency.resident(Tier.L0) == 2

    apply(residency, removed(2))

    assert residency.resident(Tier.L0) == 1


def test_copies_age_each_for_themselves(residency):
    """The oldest copy of a block goes first."""
    residency.apply(ChangeBatch(10.0, (stored(1, parent=9),), 0))
    residency.apply(ChangeBatch(20.0, (stored(1, parent=9),), 0))
    residency.apply(ChangeBatch(30.0, (removed(1), removed(1)), 0))

    (sample,) = residency.samples()

    assert (sum(sample.value.counts), sample.value.sum) == (2, 30.0)


def test_further_copies_are_told_apart_from_blocks(residency):
    """Three blocks, one of them twice and one of them three times."""
    apply(residency, stored(1), stored(2, 3, parent=1), stored(2, parent=1), stored(3, parent=2))
    apply(residency, stored(3, parent=2))
    assert residency.held(Tier.L0) == Held(distinct=3, duplicates=3, orphans=0, block_tokens=16)

    apply(residency, removed(3), removed(2))

    assert residency.held(Tier.L0) == Held(distinct=3, duplicates=1, orphans=0, block_tokens=16)


def test_a_block_told_again_in_full_report_mode_is_no_copy(residency):
    """A reused prefix is announced from its root, new blocks after it; only the new ones are stored."""
    apply(residency, stored(1, 2))

    events, _ = apply(residency, stored(1, 2), stored(3, parent=2))

    assert [event.block_hashes for event in events] == [(3,)]
    assert residency.held(Tier.L0) == Held(distinct=3, duplicates=0, orphans=0, block_tokens=16)


def test_a_copy_that_looked_told_again_is_counted_when_its_removal_shows_it(residency):
    """A request with prompt logprobs computes a known prefix anew; its blocks leave after the first ones."""
    apply(residency, stored(1, 2))
    apply(residency, stored(1, 2))
    apply(residency, removed(2), removed(1))
    assert residency.resident(Tier.L0) == 0

    events, oddities = apply(residency, removed(2), removed(1))

    assert [(event.action, event.block_hashes, event.parent_hash) for event in events] == [
        (BlockAction.STORED, (2,), 1),
        (BlockAction.STORED, (1,), None),
        (BlockAction.EVICTED, (2, 1), None),
    ]
    assert not oddities


def test_what_was_told_again_is_forgotten_with_its_cache(residency):
    """After a clear a removal of it is unheard of, as before."""
    apply(residency, stored(1), stored(1), BlocksCleared())

    _, oddities = apply(residency, removed(1))

    assert oddities == ["removal of a block never seen stored"]


def test_blocks_told_again_without_end_do_not_pile_up(residency, monkeypatch):
    """In full report mode every reuse is told and no removal follows from it."""
    monkeypatch.setattr(pools, "MOST_DOUBTFUL", 2)
    for block in range(4):
        apply(residency, stored(block), stored(block))

    for _ in range(2 * pools.MOST_TOLD):
        apply(residency, stored(3))

    (pool,) = residency._pools.values()
    assert {block: len(told) for block, told in pool._doubtful.items()} == {2: 1, 3: pools.MOST_TOLD}


def test_blocks_behind_a_gap_are_orphans(residency):
    """Nothing after a missing block can be hit; it comes back into use when the block does."""
    apply(residency, stored(1, 2, 3, 4), stored(5, parent=2), stored(6))
    apply(residency, removed(2))
    assert residency.held(Tier.L0).orphans == 3

    apply(residency, stored(2, parent=1))

    assert residency.held(Tier.L0).orphans == 0


@pytest.mark.parametrize("kind", ["sliding_window", "mamba", "chunked_local_attention", "tomorrows"])
def test_where_a_prefix_needs_no_ancestors_there_are_no_orphans(residency, kind):
    """A sliding window looks back over a few blocks only; what came before may go."""
    apply(residency, BlocksStored((1, 2, 3), "GPU", 1, None, 16, kind))

    apply(residency, removed(1, group=1))

    assert residency.held(Tier.L0) == Held(distinct=2, duplicates=0, orphans=0, block_tokens=16)
