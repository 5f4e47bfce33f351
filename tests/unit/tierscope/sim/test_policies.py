"""One exam for every eviction policy: its slow twin, and laws that need no oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive_policies
from tests.strategies import prefix_forest_paths
from tierscope.sim.paths import block_paths
from tierscope.sim.policies import POLICIES, policy_named
from tierscope.traces.open import read_trace
from tierscope.traces.paths import Paths

capacities = st.integers(0, 40)


every_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def paths_of(lists: list[list[int]]) -> Paths:
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    ids = np.array([block for path in lists for block in path], dtype=np.int32)
    return Paths(offsets, ids, int(ids.max(initial=-1)) + 1)


def endless(lists: list[list[int]]) -> list[int]:
    """Leading blocks that anyone asked for before."""
    seen: set[int] = set()
    hits = []
    for path in lists:
        hits.append(naive_policies.leading(path, seen))
        seen |= set(path)
    return hits


@every_policy
@given(lists=prefix_forest_paths(), capacity=capacities)
def test_each_request_hits_what_the_slow_twin_hits(policy, lists, capacity):
    """Request by request, at any capacity; two optimal caches may differ in whom they serve, not how much."""
    hits = policy.leading_hits(paths_of(lists), capacity).tolist()

    expected = naive_policies.TWINS[policy.name](lists, capacity)
    assert sum(hits) == sum(expected)
    assert policy.name == "opt" or hits == expected


@every_policy
@given(lists=prefix_forest_paths(), capacity=capacities)
def test_no_cache_hits_more_than_an_endless_one(policy, lists, capacity):
    """Nothing is hit before it was seen, and with room for everything nothing is missed after."""
    paths = paths_of(lists)

    assert np.all(policy.leading_hits(paths, capacity) <= endless(lists))
    assert policy.leading_hits(paths, paths.n_ids).tolist() == endless(lists)


@every_policy
@given(lists=prefix_forest_paths(), capacity=capacities)
def test_more_room_never_hurts_where_that_is_promised(policy, lists, capacity):
    """LRU and the bound: what a cache holds, a larger one holds too."""
    paths = paths_of(lists)
    here, more = (int(policy.leading_hits(paths, size).sum()) for size in (capacity, capacity + 1))

    assert here <= more or not policy.stack


@every_policy
@given(lists=prefix_forest_paths(), capacity=capacities)
def test_no_policy_beats_the_one_that_knows_the_future(policy, lists, capacity):
    """Belady's rule bounds all hits together."""
    paths = paths_of(lists)

    bound = int(policy_named("opt").leading_hits(paths, capacity).sum())
    assert int(policy.leading_hits(paths, capacity).sum()) <= bound


@every_policy
@given(lists=prefix_forest_paths(), capacity=capacities, data=st.data())
def test_names_of_blocks_mean_nothing(policy, lists, capacity, data):
    """The same paths under other ids hit the same, request by request."""
    paths = paths_of(lists)
    names = np.array(data.draw(st.permutations(range(paths.n_ids))), dtype=np.int32)
    renamed = Paths(paths.offsets, names[paths.ids], paths.n_ids)

    assert np.array_equal(policy.leading_hits(paths, capacity), policy.leading_hits(renamed, capacity))


@every_policy
def test_an_empty_trace_hits_nothing(policy):
    """No request, no block, no fault."""
    assert policy.leading_hits(paths_of([]), 3).tolist() == []


GOLDEN = {
    "lru": (125, 227, 373, 662),
    "fifo": (13, 67, 174, 591),
    "s3fifo": (134, 214, 287, 674),
    "lfu": (125, 229, 386, 695),
    "opt": (183, 310, 495, 787),
}
"""Hit blocks of the checked-in conversations at 5, 10, 20 and 80 blocks."""


@every_policy
def test_the_conversations_have_their_known_hits(policy, fixtures):
    """A change in a count is a change to explain."""
    paths = block_paths(read_trace(fixtures / "traces" / "conversations.jsonl"))
    hits = tuple(int(policy.leading_hits(paths, size).sum()) for size in (5, 10, 20, 80))

    assert hits == GOLDEN[policy.name]
