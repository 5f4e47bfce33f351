"""Admissions joined with what a cache server told of their lookups: every load in the tier it came from."""

from __future__ import annotations

import math

import pytest

from exporters import admissions as module
from exporters.admissions import MISS_PATIENCE_SECONDS, PATIENCE_SECONDS, Admissions, EngineFacts
from exporters.lmcache.record_stream import RecordStream
from exporters.lmcache.suspicion import ServerJudge
from exporters.lookups import Lookups
from exporters.vllm.hook import decode_records
from tests.captured import ENGINE, hook_payloads, lmcache_payloads
from tests.hook_records import admit, finish, first, hash_secret
from tierscope.domain.requests import (
    NO_TOKENS,
    CacheLookup,
    ExternalReason,
    TokenSplit,
)


@pytest.fixture
def lookups():
    return Lookups()


@pytest.fixture
def joined(lookups):
    """Admissions of an engine whose cache server tells its lookups."""
    return Admissions(ENGINE, EngineFacts("m", 16, lookups=lookups), hash_secret)


def lookup(hit_tokens=32, l1_hit_tokens=16, end=9.9, **fields):
    return CacheLookup("server", end, hit_tokens, l1_hit_tokens, **fields)


def splits(outcome):
    """L0, L1, L2 and external tokens of each record, and why they are external."""
    return [
        (r.tokens.l0, r.tokens.l1, r.tokens.l2, r.tokens.external, r.external_reason) for r in outcome.records
    ]


@pytest.mark.parametrize("order", [("lookup", "admit"), ("admit", "lookup")])
def test_a_load_goes_to_the_tiers_its_lookup_names(joined, lookups, order):
    """The lookup begins at the prompt's start, L0's part of it is L0's; told early or late."""
    tell = {
        "lookup": lambda: lookups.answered("r", 0, lookup(hit_tokens=40, l1_hit_tokens=24)),
        "admit": lambda: told.append(joined.apply([admit(local=16, external=23), first()])),
    }
    told = []
    for step in order:
        tell[step]()
    told.append(joined.settle(1.0))

    assert [split for outcome in told for split in splits(outcome)] == [(16, 8, 15, 0, None)]


def test_a_load_whose_lookup_cannot_come_any_more_is_external(joined, lookups):
    """The server told everything until after the admission, and not this."""
    assert not joined.apply([admit(external=16), first()]).records
    lookups.told_until(10.1)
    assert not joined.settle(1.0).records, "clocks may differ a little"

    lookups.told_until(10.5)
    outcome = joined.settle(1.1)

    assert splits(outcome) == [(0, 0, 0, 16, ExternalReason.LOOKUP_MISSING)]
    assert [oddity.what for oddity in outcome.oddities] == ["load without its lookup"]


def test_while_the_server_says_nothing_a_load_waits_no_longer_than_it_should(joined):
    """Its stream may be down."""
    joined.apply([admit(external=16), first()])

    assert not joined.settle(100.0).records
    assert not joined.settle(100.0 + PATIENCE_SECONDS - 1).records
    assert splits(joined.settle(100.0 + PATIENCE_SECONDS)) == [(0, 0, 0, 16, ExternalReason.LOOKUP_MISSING)]
    assert not joined.settle(1_000.0).records


def test_what_was_not_looked_up_waits_for_nothing(joined, lookups):
    """Whatever its lookup found, L0 served it; the lookup is kept with it where it is known."""
    lookups.answered("seen", 0, lookup(hit_tokens=32, l1_hit_tokens=0))

    outcome = joined.apply([admit("seen", local=32), first("seen"), admit("other"), first("other")])

    assert [(r.tokens.l0, r.lookup and r.lookup.hit_tokens) for r in outcome.records] == [(32, 32), (0, None)]


def test_what_loaded_nothing_has_its_lookup_too(joined, lookups):
    """Also where that is told after it: what L1 then stores for it is told by it."""
    assert not joined.apply([admit(lookups=1), first()]).records
    lookups.answered("r", 0, lookup(hit_tokens=0, l1_hit_tokens=0))

    (record,) = joined.settle(1.0).records

    assert (record.tokens.computed, record.lookup.hit_tokens, record.external_reason) == (40, 0, None)


@pytest.mark.parametrize("told_until", [10.5, 0.0], ids=["all was told", "nothing is told"])
def test_what_loaded_nothing_waits_shortly_and_nothing_is_odd_about_it(joined, lookups, told_until):
    """A prompt shorter than a chunk is asked of no server, and a server may be silent."""
    joined.apply([admit(lookups=1), first()])
    assert not joined.settle(100.0).records
    lookups.told_until(told_until)
    soon, late = joined.settle(100.1), joined.settle(100.0 + MISS_PATIENCE_SECONDS)

    told = soon if told_until else late
    assert [(record.lookup, record.tokens.computed) for record in told.records] == [(None, 40)]
    assert [*soon.records, *late.records] == told.records
    assert [*soon.oddities, *late.oddities] == []


@pytest.mark.parametrize("external", [0, 16])
def test_nothing_waits_for_a_server_or_an_engine_that_is_gone(joined, lookups, external):
    """Neither a load nor what loaded nothing; of the load nobody can tell the tier."""
    joined.apply([admit("a", lookups=1, external=external), first("a")])
    at_last = joined.settle(math.inf)
    joined.apply([admit("b", lookups=1, external=external), first("b")])
    joined._facts.lookups = None
    later = joined.settle(1.0)

    assert [record.tokens.external for record in (*at_last.records, *later.records)] == [external] * 2
    assert joined.waiting == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lookup(hit_tokens=16), id="found less than was loaded"),
        pytest.param(lookup(end=10.5), id="ended after the admission"),
    ],
)
def test_a_lookup_that_contradicts_its_admission_is_not_believed(joined, lookups, wrong):
    """Nothing is guessed: the load is external, and the lookup is named."""
    lookups.answered("r", 0, wrong)

    outcome = joined.apply([admit(external=32), first()])

    assert splits(outcome) == [(0, 0, 0, 32, ExternalReason.LOOKUP_CONTRADICTS)]
    assert outcome.records[0].lookup is None
    assert [oddity.what for oddity in outcome.oddities] == ["lookup that contradicts the admission"]


def test_each_admission_has_the_lookup_of_its_number(joined, lookups):
    """A preempted request is looked up again; what L2 gave it first L1 may have then."""
    lookups.answered("r", 0, lookup(l1_hit_tokens=0))
    lookups.answered("r", 1, lookup(l1_hit_tokens=32, end=11.9))

    outcome = joined.apply([admit(external=32), first(), admit(attempt=1, ts=12.0, external=32), finish()])

    assert [(r.attempt, r.tokens.l1, r.tokens.l2) for r in outcome.records] == [(0, 0, 32), (1, 32, 0)]


def test_lookups_of_a_server_that_began_anew_settle_no_later_admission(joined, lookups):
    """It counts from 0 again, so the second admission's lookup cannot be told from a first one."""
    lookups.answered("r", 0, lookup())
    joined.apply([admit(external=32), first()])
    lookups.answered("r", 0, lookup(end=11.9))
    lookups.told_until(13.0)

    outcome = joined.apply([admit(attempt=1, ts=12.0, external=32), finish()])

    assert splits(outcome) == [(0, 0, 0, 32, ExternalReason.LOOKUP_MISSING)]


def test_a_connector_that_tells_its_own_tiers_needs_no_lookup(joined, lookups):
    """What the engine itself says goes before the server."""
    lookups.answered("r", 0, lookup(l1_hit_tokens=0))

    outcome = joined.apply([admit(external=32, split={"host": 32}), first()])

    assert splits(outcome) == [(0, 32, 0, 0, None)]


def test_a_connector_that_says_it_does_not_know_leaves_it_to_the_lookup(joined, lookups):
    """VLLM 0.32 asks every connector, and LMCache's answers that its tokens are of no tier it could name."""
    lookups.answered("r", 0, lookup(hit_tokens=32, l1_hit_tokens=16))

    outcome = joined.apply([admit(external=32, split={"external_unspecified": 32}), first()])

    assert splits(outcome) == [(0, 16, 16, 0, None)]


def test_what_waits_for_lookups_is_bounded(joined, monkeypatch):
    """The oldest is told without; an engine's restart does not void what had ended."""
    monkeypatch.setattr(module, "MOST_WAITING", 2)

    outcome = joined.apply([r for name in "abc" for r in (admit(name, external=16), first(name))])
    restarted = joined.restart()

    assert [record.request_id for record in outcome.records] == ["a"]
    assert not restarted.records
    assert [r.request_id for r in (*joined.settle(1.0).records, *joined.settle(99.0).records)] == ["b", "c"]


@pytest.mark.parametrize("server_first", [True, False])
def test_a_real_runs_loads_are_split_by_its_servers_lookups(captures, server_first):
    """First admissions loaded 1,472 tokens from L2, re-admissions 736 from L1; no token is external."""
    folder = captures / "observer" / "c_lmcache_mp"
    stream = RecordStream("server", "pool", Lookups(), "capture", ServerJudge("capture"))
    admissions = Admissions(ENGINE, EngineFacts(lookups=stream.lookups), hash_secret)
    records, odd = [], []

    def server():
        for sequence, payload in enumerate(lmcache_payloads(folder / "lmcache_events.jsonl")):
            stream.message(payload, sequence)

    def engine():
        for payload in hook_payloads(folder):
            collect(admissions.apply(decode_records(payload, where="capture").records))

    def collect(outcome):
        records.extend(outcome.records)
        odd.extend(outcome.oddities)

    for step in (server, engine) if server_first else (engine, server):
        step()
    collect(admissions.settle(1.0))

    assert not odd
    first_ones = sum((record.tokens for record in records if record.counts), NO_TOKENS)
    assert first_ones == TokenSplit(15_976, l0=3_488, l2=1_472, computed=11_016)
    again = [record.tokens for record in records if record.attempt]
    assert (len(again), sum(t.l1 for t in again), sum(t.l2 + t.external for t in again)) == (6, 736, 0)
