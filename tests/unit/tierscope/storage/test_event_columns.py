"""What names a block event in the store, and that nothing else is asked whether it is there."""

from __future__ import annotations

from itertools import product

import pytest

from tests.ledgers import START, batch
from tierscope.domain.events import BlockAction, BlockEvent
from tierscope.domain.tiers import Tier
from tierscope.storage.event_columns import block_events_table
from tierscope.storage.rows import row_id
from tierscope.storage.store import Store


def event(tier=Tier.L0, holder="engine-1", at=START, sequence=7, ordinal=0, hashes=(1, 2)):
    return BlockEvent(tier, holder, BlockAction.STORED, hashes, at, sequence=sequence, ordinal=ordinal)


def ids(*events):
    return block_events_table(events, [0] * len(events)).column("id").to_pylist()


def test_each_place_in_a_stream_has_an_id_of_its_own():
    """Whatever differs, in whichever company: sequences and ordinals change places, too."""
    tiers, holders, times = (Tier.L0, Tier.L1), ("engine-1", "engine-2"), (START, START + 0.001)
    events = [event(*place) for place in product(tiers, holders, times, range(20), range(20))]

    named = ids(*events)

    assert len(set(named)) == len(events)
    assert named[::-1] == ids(*reversed(events))


def test_what_no_message_told_is_named_by_what_it_did():
    """As in every release: what an exporter tells again after an upgrade has the id it had."""
    one, empty = event(sequence=None), event(sequence=None, hashes=())

    assert ids(event(), one, empty)[1:] == [
        row_id("l0", "engine-1", START, "stored", 1, 2),
        row_id("l0", "engine-1", START, "stored", None, 0),
    ]


@pytest.mark.parametrize("sequence", [7, None])
def test_rows_are_known_again_whatever_release_wrote_them(tmp_path, sequence):
    """An exporter tells again what an earlier run told, and one thing more."""
    known = event(sequence=sequence)
    more = [event(sequence=8), event(sequence=9, ordinal=1), event(holder="engine-2"), event(at=START + 1)]
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as store:
        store.append(batch(0, known, incarnation=1))
        with store._database.transaction() as cursor:  # ids of events with a place were made otherwise
            cursor.execute("UPDATE block_events SET id = 12345 WHERE sequence IS NOT NULL")

        again = store.append(batch(0, known, *more, incarnation=2))

        assert again.rows["block_events"] == len(more)


def test_two_runs_in_one_append_tell_an_event_once(tmp_path):
    """Of one run both are kept: only what another run told is told again."""
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as store:
        appended = store.append([batch(0, event(), event(), incarnation=1), batch(0, event(), incarnation=2)])

    assert appended.rows["block_events"] == 2
