"""Whatever an engine says, it is followed as block by block: the same events, ages, oddities, copies."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from hypothesis import example, given
from hypothesis import strategies as st

from exporters.vllm.events import BlocksCleared, BlocksRemoved, BlocksStored, ChangeBatch
from exporters.vllm.residency import Residency
from tests.naive_residency import NaiveResidency
from tierscope.domain.events import EvictionReason

hashes = st.lists(st.integers(0, 6), max_size=4).map(tuple)
media = st.sampled_from(["GPU", "GPU", "GPU", "cuda:0", "CPU", "FS", "tape"])
groups = st.sampled_from([0, 0, 0, 1])


def changes_in(media):
    """Stores, removals and now and then a clear, of these media."""
    stores = st.builds(
        BlocksStored, hashes, media, groups, st.none() | st.integers(0, 6), st.sampled_from([16, 16, 4])
    )
    removals = st.builds(BlocksRemoved, hashes, media, groups)
    some = st.one_of(stores, removals, removals, removals, stores, st.just(BlocksCleared()))
    return st.lists(some, max_size=8).map(tuple)


batches = st.one_of(st.lists(changes_in(st.just("GPU")), max_size=8), st.lists(changes_in(media), max_size=8))


def told(event):
    """What the twin tells of an event; in which order a clear takes blocks is left open."""
    cleared = event.reason is EvictionReason.CLEAR
    blocks = Counter(event.block_hashes) if cleared else event.block_hashes
    what = event.tier, event.action, event.reason, blocks, event.parent_hash
    return *what, event.at_unix_seconds, event.ordinal


ONE = BlocksStored((1,), "GPU", 0, 9)
GONE = BlocksRemoved((1,), "GPU")


@given(
    said=batches, steps=st.lists(st.integers(-30, 90), min_size=8, max_size=8), most=st.sampled_from([2, 999])
)
@example(said=[(BlocksStored((1, 1), "GPU"), BlocksRemoved((1,) * 3, "GPU"))], steps=[1], most=999)
@example(said=[(ONE,), (GONE, BlocksStored((1,), "CPU"))], steps=[1, 1], most=999)
@example(said=[(ONE,), (GONE,)], steps=[-1], most=999)
@example(said=[(ONE, ONE), (ONE,), (GONE,)], steps=[1, 1, 1], most=2)
def test_every_change_does_what_it_does_block_by_block(said, steps, most):
    """Copies, blocks told again, lower tiers, clears, a bound: in any order, a few of them in each batch."""
    residency, twin = Residency("holder", "test", most), NaiveResidency(most)
    events, oddities = [], Counter()
    for changes, at in zip(said, accumulate(steps, initial=100.0), strict=False):
        found, odd = residency.apply(ChangeBatch(at, changes, 0), 7)
        events += map(told, found)
        for oddity in odd:
            oddities[oddity.what] += oddity.count
        twin.apply(at, changes)

        assert {place: len(pool) for place, pool in residency._pools.items()} == twin.held()
    assert events == twin.events
    assert oddities == +twin.oddities
    ages = {sample.labels[0]: (sum(sample.value.counts), sample.value.sum) for sample in residency.samples()}
    assert ages == {
        tier: (len(of_tier := [age for t, age in twin.ages if t is tier]), sum(of_tier))
        for tier in {tier for tier, _ in twin.ages}
    }
