"""An engine that began anew while nobody read it holds nothing of its life before."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ledgers import ENGINES, START, batch
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.tiers import Tier
from tierscope.storage.store import Store

HOLDER = str(ENGINES[0])


@pytest.fixture
def store(places):
    with Store.open(*places(), clock=lambda: START) as store:
        yield store


def stored(at, *hashes, holder=HOLDER, tier=Tier.L0, sequence=0):
    return BlockEvent(
        tier, holder, BlockAction.STORED, hashes, START + at, block_tokens=16, sequence=sequence
    )


def evicted(at, *hashes, sequence=1):
    reason = EvictionReason.CAPACITY
    return BlockEvent(
        Tier.L0, HOLDER, BlockAction.EVICTED, hashes, START + at, reason=reason, sequence=sequence
    )


def began(at, tier=Tier.L0):
    return BlockEvent(tier, HOLDER, BlockAction.EVICTED, (), START + at, reason=EvictionReason.RESTART)


def held(store):
    """Copies by tier, holder and block, and how many rows say that a holder restarted."""
    copies = Counter()
    with store.reader()._database.reading() as cursor:
        rows = cursor.execute("SELECT tier, holder, action, block_hashes FROM block_events").fetchall()
        (restarts,) = cursor.execute("SELECT count(*) FROM block_events WHERE reason = 'restart'").fetchone()
    for tier, holder, action, hashes in rows:
        for block_hash in hashes:
            copies[tier, holder, block_hash] += 1 if action == "stored" else -1
    assert min(copies.values()) >= 0
    return {key for key, count in copies.items() if count}, restarts


def test_what_was_held_before_is_evicted_by_the_restart(store):
    """Every copy of it, in the tier that is meant and of the holder that began; nothing of its new life."""
    store.append(
        batch(
            0,
            stored(1, 1, 2, 3, 1),
            stored(1, 1, tier=Tier.L2),
            stored(1, 9, holder="other"),
            evicted(2, 2),
        )
    )

    store.append(batch(0, began(50), stored(50, 3, 4), incarnation=8))

    assert held(store) == ({("l2", HOLDER, 1), ("l0", "other", 9), ("l0", HOLDER, 3), ("l0", HOLDER, 4)}, 1)


def test_told_again_of_the_same_life_it_changes_nothing(store):
    """Each run of an exporter tells when the life that it meets began."""
    store.append([batch(0, stored(1, 1)), batch(1, began(1), stored(1, 1), evicted(3, 1), stored(4, 5))])
    before = held(store)

    store.append([batch(0, began(1), stored(1, 1), incarnation=8), batch(1, incarnation=8)])

    assert held(store) == before


def test_one_append_may_hold_both_lives(store):
    """The collector was away: what the old run told comes with what the new one says."""
    store.append([batch(0, stored(1, 1, 2)), batch(0, began(50), stored(50, 2), incarnation=8)])

    assert held(store) == ({("l0", HOLDER, 2)}, 1)
