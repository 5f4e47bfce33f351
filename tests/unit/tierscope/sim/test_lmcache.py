"""LMCache's rules, kernel against the testbed's cache: two programs that share no code."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import prefix_forest_paths
from tests.unit.tierscope.sim.test_policies import paths_of
from tierscope.sim.lmcache import Rules, empty_shelves, leading_hits
from tierscope.testbed.model.l1 import Cache
from tierscope.testbed.model.l2 import Pool

CHUNK_BYTES = 1


def served_by_the_testbed(lists, replica, at_ms, rules, replicas):
    """Leading chunks in L1 and in both tiers, by caches of the testbed over one pool."""
    pool = Pool(
        capacity_bytes=rules.l2_chunks * CHUNK_BYTES,
        chunk_bytes=CHUNK_BYTES,
        workers=1,
        block_bytes=0,
        ttl_seconds=rules.l2_ttl_ms / 1000,
        ttl_check_seconds=rules.l2_check_ms / 1000,
    )
    caches = [
        Cache(
            pool,
            capacity_chunks=rules.l1_chunks,
            chunk_tokens=1,
            watermark_ratio=rules.watermark_ratio,
            eviction_ratio=rules.eviction_ratio,
            store_batch_chunks=rules.batch_chunks,
            retain_loads=rules.keeps_loads,
        )
        for _ in range(replicas)
    ]
    found = []
    for path, holder, at in zip(lists, replica, at_ms, strict=True):
        cache, seconds = caches[holder], at / 1000
        lookup = cache.lookup(path, seconds)
        cache.release(lookup, seconds)
        cache.store(path[lookup.hit :], seconds)
        cache.touch(path)
        found.append((lookup.l1, lookup.hit))
    return found


@given(lists=prefix_forest_paths(), data=st.data())
def test_each_lookup_finds_what_the_testbed_finds(lists, data):
    """Any sizes, batches, watermarks and ages, loads kept or dropped: the same chunks in the same tier."""
    replicas = data.draw(st.integers(1, 3))
    replica = [data.draw(st.integers(0, replicas - 1)) for _ in lists]
    at_ms = np.cumsum([data.draw(st.integers(0, 1500)) for _ in lists], dtype=np.int64)
    rules = Rules(
        l1_chunks=data.draw(st.integers(0, 20)),
        l2_chunks=data.draw(st.integers(0, 20)),
        watermark_ratio=data.draw(st.sampled_from([0.1, 0.5, 0.8, 1.0])),
        eviction_ratio=data.draw(st.sampled_from([0.1, 0.2, 1.0])),
        batch_chunks=data.draw(st.integers(1, 4)),
        keeps_loads=data.draw(st.booleans()),
        l2_ttl_ms=data.draw(st.integers(500, 5000)),
        l2_check_ms=data.draw(st.sampled_from([500, 1000])),
    )
    paths = paths_of(lists)

    l1, hit = leading_hits(
        paths, np.array(replica, np.int32), at_ms, empty_shelves(replicas, paths.n_ids), rules
    )

    expected = served_by_the_testbed(lists, replica, at_ms.tolist(), rules, replicas)
    assert list(zip(l1.tolist(), hit.tolist(), strict=True)) == expected


def test_a_store_into_a_full_l1_is_lost():
    """No room and no tick in between: the second prompt is kept nowhere, and computed again."""
    paths = paths_of([[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7]])
    at_ms = np.array([0, 1, 2], np.int64)

    _, hit = leading_hits(paths, np.zeros(3, np.int32), at_ms, empty_shelves(1, 8), Rules(4, 100))

    assert hit.tolist() == [0, 0, 0]


def test_a_load_is_read_once_or_kept():
    """What another replica stored comes from L2, the second time again where L1 drops what it read."""
    paths = paths_of([[0, 1], [0, 1], [0, 1]])
    replica, at_ms = np.array([0, 1, 1], np.int32), np.zeros(3, np.int64)

    dropped, _ = leading_hits(paths, replica, at_ms, empty_shelves(2, 2), Rules(9, 9, keeps_loads=False))
    kept, both = leading_hits(paths, replica, at_ms, empty_shelves(2, 2), Rules(9, 9))

    assert (dropped.tolist(), kept.tolist(), both.tolist()) == ([0, 0, 0], [0, 0, 2], [0, 2, 2])
