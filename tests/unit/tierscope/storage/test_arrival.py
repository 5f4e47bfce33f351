"""However what exporters told arrives, the store is as after an orderly run."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledgers import START, Ledger, batch
from tierscope.domain.batch import FeedBatch
from tierscope.domain.events import BlockEvent, LedgerEntry
from tierscope.domain.requests import RequestRecord
from tierscope.storage.store import Store

FEEDS = ("node-1", "node-2")
BATCHES = 12

TABLES = {
    "requests": "* EXCLUDE (feed, parent_id, common_blocks, new_hashes)",
    "block_accesses": "*",
    "block_events": "* EXCLUDE (feed)",
    "regret": "*",
    "shared_prefixes": "*",
    "tier_samples": "* EXCLUDE (feed)",
    "tier_activity": "* EXCLUDE (feed)",
    "engine_tokens": "* EXCLUDE (feed)",
}


def contents(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Every table and the views over events, without what only says through which feed a row came."""
    with store._database.reading() as cursor:
        return {
            table: cursor.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
            for table, columns in TABLES.items()
        }


def told(seed: int, feed: str) -> list[FeedBatch]:
    return Ledger(seed, exporter=feed).batches(BATCHES)


def told_again(batches: Sequence[FeedBatch], incarnation: int, rng: random.Random) -> list[FeedBatch]:
    """What an exporter that was started again reads from its engines' rings, in batches of other sizes."""
    kept: list[LedgerEntry] = [
        entry for one in batches for entry in one.entries if isinstance(entry, RequestRecord | BlockEvent)
    ]
    rng.shuffle(kept)
    cuts = sorted(rng.randrange(len(kept) + 1) for _ in range(3))
    parts = [kept[start:end] for start, end in zip([0, *cuts], [*cuts, len(kept)], strict=True)]
    exporter = batches[0].position.exporter
    return [batch(n, *part, exporter=exporter, incarnation=incarnation) for n, part in enumerate(parts)]


def shuffled(batches: Sequence[FeedBatch], rng: random.Random) -> list[FeedBatch]:
    """Each batch with its entries in another order: removals before their stores among them."""
    return [
        FeedBatch(one.position, one.at_unix_seconds, tuple(rng.sample(one.entries, len(one.entries))))
        for one in batches
    ]


def interleaved(feeds: Sequence[Sequence[FeedBatch]], rng: random.Random) -> list[FeedBatch]:
    """The feeds' batches mixed, each feed in its own order, some batches twice."""
    queues = [list(feed) for feed in feeds]
    mixed: list[FeedBatch] = []
    while any(queues):
        queue = rng.choice([queue for queue in queues if queue])
        mixed.append(queue.pop(0))
        if rng.random() < 0.3:
            mixed.append(rng.choice(mixed))
    return mixed


@settings(max_examples=3)
@given(seed=st.integers(0, 1000))
def test_repeats_restarts_and_any_order_give_the_tables_of_an_orderly_run(places, seed):
    """Feeds interleaved, batches doubled, entries shuffled, and all of it told again after restarts."""
    rng = random.Random(seed)
    with Store.open(*places(), clock=lambda: START) as store:
        for feed in FEEDS:
            store.append(told(seed, feed))
        expected = contents(store)

    with Store.open(*places(), clock=lambda: START) as store:
        lives = [[*shuffled(told(seed, feed), rng), *told_again(told(seed, feed), 8, rng)] for feed in FEEDS]
        arriving = interleaved(lives, rng)
        while arriving:
            size = rng.randrange(1, 6)
            store.append(arriving[:size])
            arriving = arriving[size:]

        assert contents(store) == expected
