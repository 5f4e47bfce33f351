"""What is found wrong with a pool, and with which numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.curvine.config import RemovalRules
from exporters.curvine.parse import PoolReading, Room, WorkerReading
from exporters.curvine.suspicion import (
    EvictionWatch,
    FillRate,
    PoolSuspect,
    judge_pool,
    judge_traffic,
)
from tierscope.domain.pool import PoolTraffic, Viewpoint
from tierscope.domain.severity import Severity
from tierscope.domain.units import GIB, MIB

KEEPS = RemovalRules(ttl_seconds=0, ttl_action="none", watermarks=None, block_bytes=64 * MIB)
DELETES = replace(KEEPS, ttl_seconds=3600, ttl_action="delete")


def worker(name, *, available=50 * GIB, status="live", used=50 * GIB):
    room = Room(100 * GIB, used, available)
    return WorkerReading(name, status, room, {"ssd": room}, f"http://{name}:9001")


def pool(*workers, **fields):
    live = [one for one in workers if one.is_live]
    counts = {status: sum(w.status == status for w in workers) for status in {w.status for w in workers}}
    room = sum((one.room for one in live), Room())
    return PoolReading(room=room, files=1000, counts=counts, workers=workers, **fields)


def judged(reading, rules=DELETES, fill=None, claimed=0):
    found = judge_pool(reading, rules, fill or FillRate(), claimed, where="master")
    return {finding.kind: finding for finding in found}


def test_a_pool_without_a_ttl_never_evicts():
    """The default of the project, with the fix; how fast it fills is not known at once."""
    finding = judged(pool(worker("w0")), KEEPS)[PoolSuspect.NEVER_EVICTS]

    assert finding.severity is Severity.WARNING
    assert "not known yet" in finding.error.what
    assert "client.ttl-action=delete" in finding.error.fix


@pytest.mark.parametrize("action", ["none", "free"])
def test_a_ttl_that_does_not_delete_is_none(action):
    """`free` drops what another store has, and a plain pool has none behind it."""
    assert PoolSuspect.NEVER_EVICTS in judged(
        pool(worker("w0")), replace(KEEPS, ttl_seconds=60, ttl_action=action)
    )


def test_a_pool_that_deletes_or_may_do_so_is_not_accused():
    """By the settings, by files that got a TTL from their mount, or where no settings can be read."""
    assert judged(pool(worker("w0")), DELETES) == {}
    assert judged(pool(worker("w0"), ttl_files=12), KEEPS) == {}
    assert judged(pool(worker("w0")), None) == {}


def test_a_pool_that_never_evicts_says_when_it_is_full():
    """It fills by 10 GiB an hour and 50 GiB are left: 5 hours, and that is urgent."""
    fill = FillRate()
    fill.add(0.0, 40 * GIB)
    fill.add(3600.0, 50 * GIB)

    finding = judged(pool(worker("w0")), KEEPS, fill)[PoolSuspect.NEVER_EVICTS]

    assert finding.severity is Severity.CRITICAL
    assert "10.0 GiB an hour" in finding.error.what
    assert "5.0 hours" in finding.error.what


def test_a_fill_rate_begins_anew_when_the_pool_is_emptied():
    """What was removed is no negative rate; and one reading, or a short time, is none."""
    fill = FillRate()
    fill.add(0.0, 10 * GIB)
    assert fill.bytes_per_second is None
    fill.add(100.0, 11 * GIB)
    assert fill.bytes_per_second == GIB / 100
    fill.add(200.0, 1 * GIB)
    assert fill.bytes_per_second is None
    fill.add(210.0, 2 * GIB)
    assert fill.bytes_per_second is None
    assert fill.full_in_seconds(5 * GIB) is None


def test_a_pool_is_full_when_no_worker_has_room_for_a_block():
    """60 MiB are free on each, but a block of 64 MiB needs more than that; a lost worker's room is none."""
    full = [worker("w0", available=60 * MIB), worker("w1", available=64 * MIB)]
    lost = worker("w2", status="lost")

    finding = judged(pool(*full, lost))[PoolSuspect.FULL]

    assert finding.severity is Severity.CRITICAL
    assert "124.0 MiB" in finding.error.what
    assert PoolSuspect.FULL not in judged(pool(full[0], worker("w1", available=65 * MIB)))


def test_a_full_pool_is_known_from_the_page_alone():
    """Without the list of workers, room for one block each is no room."""
    reading = PoolReading(Room(100 * GIB, 99 * GIB, 120 * MIB), 10, {"live": 2}, None)

    assert PoolSuspect.FULL in judged(reading)
    assert PoolSuspect.FULL not in judged(replace(reading, room=Room(100 * GIB, 0, GIB)))


def test_a_lost_worker_is_named_with_what_it_held():
    """Three of four; while none is left it is critical."""
    found = judged(pool(worker("w0"), worker("w1"), worker("w2"), worker("w3", status="lost", used=7 * GIB)))

    assert "3 workers of 4; missing: w3 (lost)" in found[PoolSuspect.WORKER_LOST].error.what
    assert "7.0 GiB" in found[PoolSuspect.WORKER_LOST].error.what
    none_left = judged(pool(worker("w0", status="lost")))
    assert none_left[PoolSuspect.WORKER_LOST].severity is Severity.CRITICAL


def test_an_eviction_that_freed_nothing_is_a_phantom():
    """The counter grew by 5 GiB and the pool is as full as before; a real one is believed."""
    watch = EvictionWatch()
    watch.add(pool(worker("w0"), freed_bytes=GIB), 0.0)

    claimed = watch.add(pool(worker("w0"), freed_bytes=6 * GIB), 10.0)

    assert claimed == 5 * GIB
    assert "5.0 GiB" in judged(pool(worker("w0")), claimed=claimed)[PoolSuspect.PHANTOM_EVICTION].error.what
    assert watch.add(pool(worker("w0"), freed_bytes=6 * GIB), 20.0) == claimed, "told on for a while"
    assert watch.add(pool(worker("w0"), freed_bytes=6 * GIB), 2000.0) == 0
    assert watch.add(pool(worker("w0", used=45 * GIB), freed_bytes=11 * GIB), 2010.0) == 0


def opens(local, remote):
    return PoolTraffic("pool", Viewpoint.WORKER, "", 0, 0, local_opens=local, remote_opens=remote)


def test_short_circuit_opens_hide_bytes():
    """A quarter of the opens went past the workers; one in a thousand changes no figure."""
    (finding,) = judge_traffic(opens(25, 75), where="workers")

    assert finding.kind == PoolSuspect.HIDDEN_BYTES
    assert "25 of 100 blocks (25%)" in finding.error.what
    assert list(judge_traffic(opens(1, 999), where="workers")) == []
    assert list(judge_traffic(opens(0, 0), where="workers")) == []
