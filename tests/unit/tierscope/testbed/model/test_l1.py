"""L1 as LMCache keeps it: what is stored, refused, touched, loaded and dropped."""

from __future__ import annotations

import pytest

from tierscope.testbed.model.l1 import Cache
from tierscope.testbed.model.l2 import Pool


def pool(chunks: int = 100) -> Pool:
    return Pool(
        capacity_bytes=chunks,
        chunk_bytes=1,
        workers=1,
        block_bytes=0,
        ttl_seconds=None,
        ttl_check_seconds=1,
    )


def cache(below: Pool, *, chunks: int = 8, **changes: object) -> Cache:
    options = {"watermark_ratio": 0.8, "eviction_ratio": 0.25, "store_batch_chunks": 4, "retain_loads": False}
    return Cache(below, capacity_chunks=chunks, chunk_tokens=256, **(options | changes))


def test_a_stored_chunk_is_written_through_to_the_pool():
    """What L1 takes, L2 has too; the write-back reads L1 once a chunk."""
    l1 = cache(l2 := pool())

    l1.store([1, 2, 3], 0.0)

    assert [l2.holds(chunk) for chunk in (1, 2, 3)] == [True] * 3
    assert (l1.counters.written, l1.counters.read, l1.counters.completed) == (3, 3, 3)


def test_a_store_without_room_keeps_nothing_and_reaches_no_pool():
    """A full L1 refuses a whole batch, counts it, and never hands it on."""
    l1 = cache(l2 := pool(), chunks=5)
    l1.store([1, 2, 3, 4], 0.0)

    l1.store([5, 6], 0.1)

    assert l1.counters.refused == 2
    assert l1.resident_chunks == 4
    assert not l2.holds(5)


def test_the_loop_makes_room_once_a_second_and_only_above_the_watermark():
    """Eviction waits for the next full second, and drops the share that was configured, oldest first."""
    l1 = cache(pool(), eviction_ratio=0.3)
    l1.store([1, 2, 3, 4], 0.0)
    l1.store([5, 6, 7], 0.5)
    before = l1.resident_chunks

    l1.tick(1.0)

    assert before == 7
    assert l1.resident_chunks == 5
    assert l1.lookup([1, 2, 3, 4], 1.0).l1 == 2
    assert l1.counters.rounds == 1


def test_a_lookup_touches_what_it_finds_last_chunk_first():
    """A looked-up prefix outlives what was stored after it, and loses its tail first."""
    l1 = cache(pool(), eviction_ratio=0.75)
    l1.store([1, 2, 3], 0.0)
    l1.store([7, 8, 9, 10], 0.1)
    l1.release(l1.lookup([1, 2, 3], 0.2), 0.3)

    l1.tick(1.0)

    assert l1.resident_chunks == 2
    assert l1.lookup([1, 2, 3], 1.0).l1 == 2


def test_the_end_of_a_request_touches_all_of_its_prompt_last_chunk_first():
    """What it computed goes before what it shares, although it was stored later."""
    l1 = cache(pool(), eviction_ratio=0.75)
    l1.store([1, 2, 3, 4], 0.0)
    l1.release(l1.lookup([1, 2, 5, 6, 7], 0.1), 0.2)
    l1.store([5, 6, 7], 0.3)

    l1.touch([1, 2, 5, 6, 7])
    l1.tick(1.0)

    assert l1.resident_chunks == 2
    assert l1.lookup([1, 2, 5, 6, 7], 1.0).l1 == 2


def test_a_share_is_rounded_down_and_never_nothing():
    """A quarter of seven chunks is one, and so is a tenth."""
    for ratio in (0.25, 0.1):
        l1 = cache(pool(), eviction_ratio=ratio)
        l1.store([1, 2, 3, 4], 0.0)
        l1.store([5, 6, 7], 0.1)

        l1.tick(1.0)

        assert l1.resident_chunks == 6


@pytest.mark.parametrize(("retain", "resident", "evicted"), [(False, 0, 3), (True, 3, 0)])
def test_what_the_pool_handed_up_is_dropped_after_its_read_unless_retained(retain, resident, evicted):
    """Chunks loaded from L2 hold room during the read; then they go, and count as evicted, or stay."""
    l2 = pool()
    cache(l2).store([1, 2, 3], 0.0)
    l1 = cache(l2, retain_loads=retain)

    lookup = l1.lookup([1, 2, 3, 4], 1.0)
    during = l1.used_chunks
    l1.release(lookup, 1.1)

    assert (lookup.hit, lookup.l1, during) == (3, 0, 3)
    assert (l1.resident_chunks, l1.counters.evicted) == (resident, evicted)


def test_a_hit_in_the_pool_is_a_miss_when_l1_has_no_room_for_it():
    """Nothing is evicted for a load; without room the chunks count as failed and as not found."""
    l2 = pool()
    cache(l2).store([1, 2, 3], 0.0)
    l1 = cache(l2, chunks=2)

    lookup = l1.lookup([1, 2, 3], 0.5)

    assert lookup.hit == 0
    assert l1.counters.load_refused == 3
    assert l1.counters.hit_l2_tokens == 0


def test_a_chunk_behind_a_gap_is_credited_to_the_pool_in_tokens_and_to_l1_in_keys():
    """L1's tokens are the prefix it serves alone; keys count what it really held."""
    l2 = pool()
    cache(l2).store([1, 2, 3], 0.0)
    l1 = cache(l2)
    l1.store([1], 0.0)
    l1.store([3], 0.0)

    l1.lookup([1, 2, 3], 0.5)

    counters = l1.counters
    assert (counters.hit_l1_tokens, counters.hit_l2_tokens) == (256, 512)
    assert (counters.hit_l1_chunks, counters.hit_l2_chunks) == (2, 1)


def test_chunks_being_read_are_not_evicted():
    """A lookup pins what it found until it is released."""
    l1 = cache(pool(), eviction_ratio=1.0)
    l1.store([1, 2, 3], 0.0)
    lookup = l1.lookup([1, 2], 0.1)
    l1.store([4, 5, 6, 7], 0.2)

    l1.tick(1.0)
    pinned = l1.resident_chunks
    l1.release(lookup, 1.1)

    assert pinned == 2
