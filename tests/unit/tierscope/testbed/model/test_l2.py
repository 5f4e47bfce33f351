"""The pool as Curvine keeps it: it refuses when full, and only age makes a file go."""

from __future__ import annotations

from tierscope.testbed.model.l2 import Pool


def pool(**changes) -> Pool:
    options = {
        "capacity_bytes": 40,
        "chunk_bytes": 10,
        "workers": 1,
        "block_bytes": 0,
        "ttl_seconds": None,
        "ttl_check_seconds": 60,
    }
    return Pool(**(options | changes))


def test_a_full_pool_refuses_and_evicts_nothing():
    """Curvine makes no room: what is there stays, what comes is turned away."""
    l2 = pool()

    taken = [l2.put(key, 0.0) for key in range(6)]

    assert taken == [True] * 4 + [False] * 2
    assert [l2.holds(key) for key in range(6)] == taken
    assert l2.counters.refused == 2


def test_a_worker_keeps_one_block_free():
    """A worker with less room than one of its blocks takes no file."""
    l2 = pool(block_bytes=25)

    assert [l2.put(key, 0.0) for key in range(4)] == [True, True, False, False]


def test_a_file_that_is_there_is_not_written_again():
    """Writing a known chunk succeeds and changes nothing, its age included."""
    l2 = pool(ttl_seconds=100.0)
    l2.put(1, 0.0)

    again = l2.put(1, 90.0)
    l2.tick(120.0)

    assert again
    assert l2.counters.written == 1
    assert not l2.holds(1)


def test_age_is_looked_at_now_and_then():
    """A file outlives its time until the next check."""
    l2 = pool(ttl_seconds=50.0)
    l2.put(1, 20.0)

    l2.tick(110.0)
    early = l2.holds(1)
    l2.tick(120.0)

    assert early
    assert not l2.holds(1)
    assert l2.counters.expired == 1


def test_files_spread_over_workers_and_fill_them_all():
    """A file goes to another worker when its own is full."""
    l2 = pool(workers=2)

    taken = [l2.put(key, 0.0) for key in (0, 2, 4, 6)]

    assert all(taken)
    assert l2.files_of_worker == [2, 2]
