"""What users of the neighbours complain about, asked of the store."""

from __future__ import annotations

import shutil

import pytest

from tests.ledgers import ENGINES, START, admission, batch
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.tiers import Tier
from tierscope.storage.store import Store

RESIDENT = """
SELECT count(*), sum(block_hash) FROM (
  SELECT holder, block_hash, arg_max(action, (at_unix_seconds, id)) AS last
  FROM (SELECT *, unnest(block_hashes) AS block_hash FROM block_events) GROUP BY ALL
) WHERE last = 'stored'
"""


def event(blocks, action=BlockAction.STORED, *, at=START, reason=None, sequence=None):
    return BlockEvent(Tier.L0, str(ENGINES[0]), action, tuple(blocks), at, reason=reason, sequence=sequence)


def ask(store, sql):
    with store._database.reading() as cursor:
        return cursor.execute(sql).fetchall()


@pytest.fixture
def store(places):
    with Store.open(*places(), clock=lambda: START + 7200) as store:
        yield store


def test_a_hole_in_a_stream_stands_in_coverage_and_a_restart_doubles_nothing(store):
    """UD-30: batches 1, 2, 3, 7, 8 miss three; 500 and then 0 is another life, and counts once."""
    store.append([batch(n, admission("ab", name=str(n)), at=START + n) for n in (1, 2, 3, 7, 8)])
    store.append([batch(500, incarnation=8), batch(0, admission("ab", name="8"), incarnation=9)])

    gaps = ask(
        store,
        "SELECT first_sequence, last_sequence, missing FROM coverage WHERE incarnation = 7 AND missing > 0 "
        "ORDER BY ALL",
    )
    assert gaps == [(0, 0, 1), (4, 6, 3)]
    assert ask(store, "SELECT sum(restarts) FROM coverage") == [(2,)]
    assert ask(store, "SELECT count(*) FROM requests") == [(5,)]


def test_a_thousand_blocks_stored_and_cleared_leave_none(store):
    """UD-32: nothing is resident in the history, and the evictions have their reason."""
    cleared = event(range(1000), BlockAction.EVICTED, at=START + 1, reason=EvictionReason.CLEAR)
    store.append(batch(0, event(range(1000)), cleared))

    assert ask(store, RESIDENT) == [(0, None)]
    assert ask(
        store, "SELECT reason, sum(blocks) FROM block_events WHERE action = 'evicted' GROUP BY ALL"
    ) == [("clear", 1000)]


@pytest.mark.parametrize("places", ["file"], indirect=True)
def test_a_collector_killed_at_event_10_000_reaches_the_same_residency(store, tmp_path):
    """UD-37: the killed one's files go on with the rest of the feed; a read of every block ends."""
    blocks = 10
    batches = [
        batch(n // 1000, *(event(range(k, k + blocks), at=START + k, sequence=k) for k in range(n, n + 1000)))
        for n in range(0, 20_000, 1000)
    ]
    store.append(batches[:10])
    killed = shutil.copy(store.path, tmp_path / "killed.duckdb")
    shutil.copy(f"{store.path}.wal", f"{killed}.wal")
    store.append(batches[10:])

    with Store.open(killed, clock=lambda: START) as again:
        assert ask(again, "SELECT count(*) FROM block_events") == [(10_000,)]
        again.append(batches[8:])

        assert ask(again, RESIDENT) == ask(store, RESIDENT)
        assert ask(again, "SELECT count(*), sum(blocks) FROM block_events") == [(20_000, 20_000 * blocks)]
