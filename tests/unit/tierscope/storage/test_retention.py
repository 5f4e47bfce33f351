"""The past shrinks to sums and then goes, without a change of what it adds up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import ENGINES, START, Ledger, admission, batch
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.pool import PoolFiles, PoolTraffic, Viewpoint
from tierscope.domain.requests import RequestRecord
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.storage.retention import Keeping
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
HOURS = 6
NOW = START // 3600 * 3600 + HOURS * 3600
FOR_EVER = 1e9


def keeping(raw_hours: float = FOR_EVER, hourly_hours: float = FOR_EVER, most_bytes=None) -> Keeping:
    return Keeping(raw_seconds=3600 * raw_hours, hourly_seconds=3600 * hourly_hours, most_bytes=most_bytes)


@pytest.fixture
def store(places):
    """Six hours of a small deployment; the clock stands at their end."""
    with Store.open(*places(), clock=lambda: NOW) as store:
        store.append(Ledger(seed=5).batches(60 * HOURS))
        yield store


def ask(store, sql):
    with store._database.reading() as cursor:
        return cursor.execute(sql).fetchall()


def sums(store) -> dict[str, object]:
    """Everything that a reduction must not change."""
    reader = store.reader()
    return {
        "totals": reader.totals("prod", "chat", ALL_TIME).tokens,
        "engines": reader.engine_totals("prod", "chat", ALL_TIME).tokens,
        "coverage": [
            (c.source, c.received, c.missing, c.restarts, c.first_sequence, c.last_sequence)
            for c in reader.coverage(ALL_TIME)
        ],
        "hours": ask(store, "FROM tier_hits_per_hour ORDER BY ALL"),
        "blocks": ask(
            store,
            "SELECT holder, action, reason, sum(blocks) FROM (SELECT holder, action, reason, blocks FROM "
            "block_events UNION ALL SELECT holder, action, reason, blocks FROM hourly_blocks) "
            "GROUP BY ALL ORDER BY ALL",
        ),
        "activity": ask(
            store,
            "SELECT feed, holder, sum(lookup_hit_tokens), sum(stored_blocks) FROM tier_activity GROUP BY ALL",
        ),
    }


@pytest.mark.parametrize("raw_hours", [5, 3, 0])
def test_sums_of_an_hour_add_up_to_what_its_rows_did(store, raw_hours):
    """Tokens, blocks, coverage and activity are the same before and after; only older rows are gone."""
    before = sums(store)
    newer = ask(store, f"SELECT count(*) FROM requests WHERE hour >= {NOW // 3600 - raw_hours}")

    deleted = store.retain(keeping(raw_hours))

    assert deleted["requests"] > 0
    assert sums(store) == before
    assert ask(store, "SELECT count(*) FROM requests") == newer
    assert ask(store, "SELECT count(*) > 0 FROM hourly_requests WHERE ttft_requests > 0") == [(True,)]


def test_reducing_step_by_step_gives_what_reducing_at_once_gives(store, places):
    """However often the keeper comes by."""
    with Store.open(*places(), clock=lambda: NOW) as once:
        once.append(Ledger(seed=5).batches(60 * HOURS))
        once.retain(keeping(2))
        for raw_hours in (5, 4, 4, 3, 2):
            store.retain(keeping(raw_hours))

        for table in ("hourly_requests", "hourly_blocks", "tier_samples", "tier_activity", "engine_tokens"):
            assert ask(store, f"FROM {table} ORDER BY ALL") == ask(once, f"FROM {table} ORDER BY ALL"), table
        assert sums(store) == sums(once)


def test_a_reduced_hour_has_one_row_of_each_reading_and_interval(store):
    """Readings keep the last of the hour, intervals are joined; the newest hours keep all."""
    before = ask(store, "SELECT max(at_unix_seconds) FROM tier_samples GROUP BY holder ORDER BY ALL")

    store.retain(keeping(0))

    for table, keys in (
        ("tier_samples", "tier, holder"),
        ("tier_activity", "tier, holder"),
        ("engine_tokens", "replica, rank, model"),
    ):
        rows = ask(
            store,
            f"SELECT count(*) FROM {table} WHERE at_unix_seconds < {NOW} "
            f"GROUP BY floor(at_unix_seconds / 3600), {keys}",
        )
        assert set(rows) == {(1,)}, table
    assert before == ask(store, "SELECT max(at_unix_seconds) FROM tier_samples GROUP BY holder ORDER BY ALL")


def test_of_a_pool_an_hour_keeps_its_traffic_and_its_last_scan(places):
    """Bytes and seconds add up; the rows of one scan stay together, also where a kind went meanwhile."""
    hour = START // 3600 * 3600
    traffic = [
        PoolTraffic("kv", Viewpoint.WORKER, "w0", hour + t, hour + t + 5, read_bytes=100, read_seconds=0.25)
        for t in (0, 5, 10)
    ]
    scans = [
        PoolFiles("kv", "chunk", "org/m", hour + 60, 5, 500),
        PoolFiles("kv", "temp", "org/m", hour + 60, 1, 10),
        PoolFiles("kv", "chunk", "org/m", hour + 120, 6, 600),
    ]
    with Store.open(*places(), clock=lambda: NOW) as store:
        store.append(batch(0, *traffic, *scans))
        store.retain(keeping(0))

        assert ask(store, "SELECT read_bytes, read_seconds, written_bytes FROM pool_traffic") == [
            (300, 0.75, None)
        ]
        assert ask(store, "SELECT kind, files, size_bytes FROM pool_files") == [("chunk", 6, 600)]
        store.retain(keeping(0, 0))
        assert ask(store, "SELECT count(*) FROM pool_files") == [(0,)]


def test_chains_of_the_hours_that_stay_are_whole(store):
    """No delta points into an hour that is gone."""
    store.retain(keeping(3))

    window = store.reader().window("prod", "chat", ALL_TIME)

    assert window.requests > 0
    assert ask(store, "SELECT count(*) FROM block_accesses WHERE status = 'served'") == [(window.accesses,)]


def test_sums_that_are_old_enough_are_deleted(store):
    """Nothing of such an hour stays, in any table that grows."""
    store.retain(keeping(2, 4))

    first = NOW / 3600 - 4
    assert ask(store, "SELECT min(hour) FROM hourly_requests") == [(first,)]
    for table in ("tier_samples", "tier_activity", "engine_tokens", "coverage"):
        assert ask(store, f"SELECT min(at_unix_seconds) >= {first * 3600} FROM {table}") == [(True,)]
    assert store.history_hours() == {"raw": 2, "hourly": 4}


def test_what_is_told_again_of_a_reduced_hour_does_not_count_twice(store):
    """An exporter that reads its engines from their start tells of hours that are sums by now."""
    store.retain(keeping(3))
    before = sums(store)
    entries = [
        entry
        for one in Ledger(seed=5).batches(60 * HOURS)
        for entry in one.entries
        if isinstance(entry, RequestRecord | BlockEvent)
    ]

    again = store.append(batch(0, *entries, incarnation=8))

    assert again.late > 0
    assert {k: v for k, v in sums(store).items() if k != "coverage"} == {
        k: v for k, v in before.items() if k != "coverage"
    }


@pytest.mark.parametrize("places", ["file"], indirect=True)
def test_a_bound_in_bytes_holds(places):
    """The oldest hours go until what is used fits; the newest are still there in detail."""
    bound = 6 * 1024 * 1024
    clock = [START]
    with Store.open(*places(), clock=lambda: clock[0]) as store:
        largest = 0
        for hour in range(40):
            clock[0] = START + hour * 3600
            entries = [
                admission(range(n * 500, n * 500 + 500), name=f"{hour}-{n}", at=clock[0], block_tokens=1)
                for n in range(20)
            ]
            event = BlockEvent(
                Tier.L0, str(ENGINES[0]), BlockAction.EVICTED, tuple(range(hour, hour + 30_000)), clock[0],
                reason=EvictionReason.CAPACITY,
            )  # fmt: skip
            store.append(batch(hour, *entries, event, at=clock[0]))
            store.retain(keeping(most_bytes=bound))
            largest = max(largest, store.used_bytes())

        assert largest <= bound
        assert store.history_hours()["raw"] < 39
        assert store.history_hours()["hourly"] == 39
        assert ask(store, "SELECT max(hour) FROM requests") == [((START + 39 * 3600) // 3600,)]
        tokens = store.reader().totals("prod", "chat", ALL_TIME).tokens.prompt
        assert tokens == 40 * 20 * 505


def test_a_bound_that_cannot_be_met_keeps_the_running_hour(places):
    """What is being written is not deleted under the writer."""
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(batch(0, admission("abc"), replace(admission("abc", name="2"), model="other")))

        store.retain(keeping(most_bytes=1))

        assert ask(store, "SELECT count(*) FROM requests") == [(2,)]
