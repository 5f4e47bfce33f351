"""What an engine counts while nobody reads it is in the store all the same, once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledgers import ENGINES, START, batch, split_of
from tierscope.domain.errors import BadInput
from tierscope.domain.events import CounterState, EngineTokens, TierActivity
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.selection import Selection
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
FIRST, SECOND = START - 100.0, START + 50.0
"""When two lives of an engine began."""


@pytest.fixture
def store(places):
    with Store.open(*places(), clock=lambda: START) as store:
        yield store


def told(at, grown, total, *, began=FIRST):
    """An engine's prompts: what its reader saw grow, and what they are in all."""
    stand = CounterState(began, tuple(total.as_dict().values()))
    return EngineTokens(ENGINES[0], "m", START + at - 1, START + at, grown, stand)


def prompts(at, grown, total, *, began=FIRST):
    return told(at, split_of(grown, grown // 2), split_of(total, total // 2), began=began)


def stored(store):
    return store.reader().engine_totals("prod", "chat", ALL_TIME).tokens


def intervals(store):
    with store.reader()._database.reading() as cursor:
        return cursor.execute(
            "SELECT since_unix_seconds, at_unix_seconds, prompt_tokens FROM engine_tokens ORDER BY ALL"
        ).fetchall()


def test_what_grew_between_two_runs_of_an_exporter_is_told_by_the_second(store):
    """Its row begins where the first run's last one ended: the hole is closed."""
    store.append(batch(0, prompts(1, 100, 100)))
    store.append(batch(0, prompts(9, 0, 160), incarnation=8))
    store.append(batch(1, prompts(10, 20, 180), incarnation=8))

    assert stored(store).prompt == 180
    assert intervals(store) == [
        (START, START + 1, 100),
        (START + 1, START + 9, 60),
        (START + 9, START + 10, 20),
    ]


def test_what_a_lost_batch_had_is_in_the_next_one(store):
    """A reading that never arrived is no loss, only a longer interval."""
    store.append([batch(0, prompts(1, 100, 100)), batch(2, prompts(3, 10, 150))])

    assert stored(store).prompt == 150


def test_a_new_life_counts_from_zero(store):
    """Of an engine that is known, all that it has counted since it began again is new."""
    store.append(batch(0, prompts(1, 100, 100)))
    store.append(batch(0, prompts(99, 0, 70, began=SECOND), incarnation=8))

    assert stored(store).prompt == 170
    assert intervals(store)[-1] == (SECOND, START + 99, 70)


def test_what_was_before_the_first_reader_is_nobodys(store):
    """An engine nobody has read before counts from its first reading on."""
    store.append(batch(0, prompts(1, 0, 5000)))
    assert intervals(store) == []

    store.append(batch(1, prompts(2, 30, 5030)))

    assert stored(store).prompt == 30


def test_two_exporters_that_read_one_engine_do_not_measure_against_each_other(store):
    """Each has its own rows, as it has of everything it reads."""
    store.append(batch(0, prompts(1, 100, 100)))
    store.append(batch(0, prompts(2, 100, 100), exporter="node-2"))

    assert [row[2] for row in intervals(store)] == [100, 100]


def test_a_load_whose_tier_is_told_differently_stays_a_load(store):
    """A new reader may know less of which tier it was: the sum is what counts."""
    store.append(batch(0, told(1, TokenSplit(100, l1=60, computed=40), TokenSplit(100, l1=60, computed=40))))
    store.append(
        batch(0, told(9, NO_TOKENS, TokenSplit(150, l1=20, external=70, computed=60)), incarnation=8)
    )

    assert stored(store) == TokenSplit(150, l1=60, external=30, computed=60)


def test_hits_that_are_counted_before_their_prompt_are_part_of_no_other(store):
    """An exporter that reads between the two finds more hits, and fewer computed tokens, of one sum."""
    store.append(batch(0, told(1, NO_TOKENS, NO_TOKENS)))
    store.append(batch(1, told(2, NO_TOKENS, TokenSplit(1000, l0=400, computed=600))))
    store.append(batch(0, told(9, NO_TOKENS, TokenSplit(1000, l0=700, computed=300)), incarnation=8))
    store.append(batch(1, told(10, NO_TOKENS, TokenSplit(1500, l0=700, computed=800)), incarnation=8))

    assert stored(store) == TokenSplit(1500, l0=400, computed=1100)


def test_lookups_of_which_more_missed_than_before_are_not_negative(store):
    """A hit or a miss that became the other is no lookup."""

    def lookups(at, hit, missed):
        total = CounterState(FIRST, (hit, missed))
        return TierActivity(Tier.L0, str(ENGINES[0]), START, START + at, 0, 0, total=total)

    store.append([batch(0, lookups(1, 0, 0)), batch(1, lookups(2, 10, 20)), batch(2, lookups(3, 5, 30))])

    with store.reader()._database.reading() as cursor:
        found = cursor.execute(
            "SELECT lookup_hit_tokens, lookup_miss_tokens FROM tier_activity ORDER BY ALL"
        ).fetchall()
    assert found == [(0, 5), (10, 20)]


def test_an_entry_that_cannot_be_measured_is_refused_by_name(store, monkeypatch):
    """Whatever it is: its neighbours are stored, and the writer goes on."""

    def unmeasurable(values):
        if values[0] == 13:
            raise BadInput("thirteen tokens", where="TokenSplit", fix="none")
        return TokenSplit(values[0], computed=values[0])

    monkeypatch.setattr("tierscope.storage.bridging._split", unmeasurable)
    store.append(batch(0, prompts(1, 0, 0)))

    result = store.append(batch(1, prompts(2, 0, 13), prompts(3, 0, 33)))

    assert (result.refused, result.rows["engine_tokens"]) == (1, 1)
    assert "EngineTokens" in result.first_refusal
    assert "thirteen tokens" in result.first_refusal


def test_lookups_are_measured_like_prompts(store):
    """Tokens looked up while no exporter ran are in the next row."""

    def lookups(at, hit, missed):
        total = CounterState(FIRST, (hit, missed))
        return TierActivity(Tier.L0, str(ENGINES[0]), START, START + at, 0, 0, total=total)

    store.append(batch(0, lookups(1, 10, 10)))
    store.append(batch(0, lookups(5, 40, 30), incarnation=8))

    with store.reader()._database.reading() as cursor:
        found = cursor.execute(
            "SELECT since_unix_seconds - ?, lookup_hit_tokens, lookup_miss_tokens FROM tier_activity", [START]
        ).fetchall()
    assert found == [(1.0, 30, 20)]


def test_what_an_append_that_failed_had_measured_is_measured_again(store, monkeypatch):
    """Nothing of it is in the store, so it is still to be added."""
    store.append(batch(0, prompts(1, 100, 100)))
    with monkeypatch.context() as broken:
        broken.setattr("tierscope.storage.ingest._POSITIONS", "INSERT INTO no_such_table FROM incoming")
        with pytest.raises(Exception, match="no_such_table"):
            store.append(batch(1, prompts(2, 50, 150)))

    store.append(batch(1, prompts(2, 50, 150)))

    assert stored(store).prompt == 150


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 50),
            st.sampled_from(["told", "lost", "run", "engine", "store"]),
            st.tuples(*[st.integers(0, 1000)] * 4),
        ),
        max_size=20,
    )
)
def test_however_readers_come_and_go_the_sum_is_the_engines(places, steps):
    """The store has what was counted by the last reading that arrived.

    Whatever is lost or begins anew, and however each reading splits it: any part may fall for itself.
    """
    place = places()
    store = Store.open(*place, clock=lambda: START)
    run = sequence = ended = total = 0
    store.append(batch(sequence, prompts(0, 0, 0, began=START), incarnation=run))
    began = START
    for at, (tokens, what, shares) in enumerate(steps, start=1):
        total += tokens
        if what == "engine":  # what it counts after its last reading dies with it
            ended, total, began = stored(store).prompt, tokens, START + at
        if what == "run":
            run, sequence = run + 1, -1
        if what == "store":
            store.close()
            store = Store.open(*place, clock=lambda: START)
        sequence += 1
        if what != "lost":
            reading = told(at, NO_TOKENS, split_of(total, *shares), began=began)
            assert not store.append(batch(sequence, reading, incarnation=run)).refused
            assert stored(store).prompt == ended + total
    store.close()


def test_an_endpoint_that_is_forgotten_leaves_no_counter(store):
    """Its engines' names are in the states too."""
    store.append(batch(0, prompts(1, 100, 100)))

    deleted = store.forget(Selection(namespace="prod", endpoint="chat"))

    assert deleted["counter_states"] == 1
    assert store.reader().row_counts()["counter_states"] == 0
