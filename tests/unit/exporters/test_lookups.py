"""Lookups that wait for their admissions."""

from __future__ import annotations

from dataclasses import replace

from exporters import lookups as module
from exporters.lookups import Lookups
from tests.admitted import wanted
from tests.captured import ENGINE
from tierscope.domain.requests import (
    CacheLookup,
    RequestRecord,
    RequestStatus,
    TierLoad,
    TierStore,
    TokenSplit,
)
from tierscope.domain.tiers import Tier


def test_only_so_many_requests_are_remembered_the_oldest_forgotten_first():
    """Most requests load nothing, and nobody asks for their lookups."""
    lookups = Lookups(most_requests=2)
    for name in "abc":
        lookups.answered(name, 0, CacheLookup("server", 1.0, 64, 64))

    assert [lookups.take(wanted(name, 0)) is not None for name in "abc"] == [False, True, True]


def test_only_so_many_copies_are_kept_the_oldest_requests_forgotten_first():
    """Where no engine has the hook nobody takes them; what is taken makes room."""
    lookups = Lookups(most_copies=4)
    for name in "abc":
        lookups.answered(name, 0, CacheLookup("server", 1.0, 64, 64))
        lookups.loaded(name, TierLoad(Tier.L1, 1.2, 1.1))
        lookups.stored(name, store(1.3))

    assert [lookups.take(wanted(name, 0)) is not None for name in "abc"] == [False, True, True]
    for began in (2.0, 3.0):
        lookups.stored("d", store(began))
    lookups.joined(RECORD, "b")
    assert len(late(lookups, 0.0, 1.0)) == 1, "four again, and none is too many"
    lookups.stored("d", store(4.0))
    lookups.joined(RECORD, "d")
    assert len(late(lookups, 2.0, 3.0)) == 3
    for began in range(9):
        lookups.stored("e", store(began))
    assert lookups._copies <= 4


def test_a_lookup_is_taken_once():
    """A record that comes twice finds nothing the second time; another admission's stays."""
    lookups = Lookups()
    for number in (0, 1):
        lookups.answered("r", number, CacheLookup("server", 1.0 + number, 64, 0))

    assert lookups.take(wanted("r", 0)) is not None
    assert lookups.take(wanted("r", 0)) is None
    assert lookups.take(wanted("r", 1)) is not None


def test_each_lookup_has_the_loads_made_for_it():
    """Also when all of a request's lookups were told before its first admission was."""
    lookups = Lookups()
    for number, start in enumerate((1.0, 3.0)):
        lookups.loaded("r", TierLoad(Tier.L2, start + 0.5, start + 0.1))
        lookups.answered("r", number, CacheLookup("server", start + 0.6, 64, 0, start))
        lookups.loaded("r", TierLoad(Tier.L1, start + 0.9, start + 0.7))

    ends = [
        [load.ended_unix_seconds for load in lookups.take(wanted("r", number)).loads] for number in (0, 1)
    ]

    assert ends == [[1.5, 1.9], [3.5, 3.9]]


RECORD = RequestRecord(
    engine=ENGINE,
    model="m",
    request_id="cmpl-r",
    attempt=0,
    status=RequestStatus.SERVED,
    tokens=TokenSplit(64, computed=64),
    block_tokens=16,
    block_hashes=(),
    arrived_unix_seconds=0.5,
    admitted_unix_seconds=1.0,
    lookup=CacheLookup("server", 0.9, 0, 0),
)
AGAIN = replace(RECORD, attempt=1, status=RequestStatus.READMITTED, admitted_unix_seconds=5.0)


def store(began):
    return TierStore(Tier.L1, began + 0.1, began, 1, 2048)


def late(lookups, *seconds):
    """What comes when somebody looks at these times."""
    return [(each.admission[2], each.move) for at in seconds for each in lookups.late(at)]


def test_what_was_stored_for_an_admission_is_told_after_it():
    """Before it was told or after it: once, and a moment later."""
    lookups = Lookups()
    lookups.stored("r-1", store(1.2))
    assert late(lookups, 0.0, 10.0) == [], "nobody was admitted yet"

    lookups.joined(RECORD, "r-1")
    assert late(lookups, 20.0, 20.5) == []
    lookups.stored("r-1", store(2.0))

    assert late(lookups, 21.0, 30.0) == [(0, store(1.2)), (0, store(2.0))]
    assert late(lookups, 40.0, 50.0) == []


def test_what_was_stored_belongs_to_the_last_admission_before_it():
    """A preempted request stores again; of what was stored before anybody was admitted nobody knows whose."""
    lookups = Lookups()
    lookups.joined(RECORD, "r-1")
    for began in (0.1, 1.2, 5.5):
        lookups.stored("r-1", store(began))
    lookups.joined(AGAIN, "r-1")

    assert late(lookups, 0.0, 1.0) == [(0, store(1.2)), (1, store(5.5))]


def test_the_last_admission_before_a_store_is_the_one_admitted_last():
    """A request that was preempted before its first token: its second admission is told before its first."""
    lookups = Lookups()
    lookups.joined(AGAIN, "r-1")
    lookups.joined(RECORD, "r-1")
    for began in (1.2, 5.5):
        lookups.stored("r-1", store(began))

    assert late(lookups, 0.0, 1.0) == [(0, store(1.2)), (1, store(5.5))]


def test_what_was_loaded_before_a_lookup_is_not_lost_with_it():
    """A late read of the admission before, while it waits; and that one's own, where it comes second."""
    early, later = TierLoad(Tier.L1, 1.4, 1.3, 1, 2048), TierLoad(Tier.L2, 4.8, 4.7, 1, 2048)
    told, second = Lookups(), Lookups()
    told.joined(RECORD, "r-1")
    for lookups in (told, second):
        lookups.loaded("r-1", early)
        lookups.loaded("r-1", later)
        lookups.answered("r-1", 1, CacheLookup("server", 4.9, 64, 0, 4.6))
    second.answered("r-1", 0, CacheLookup("server", 1.2, 64, 0, 1.1))

    assert told.take(wanted("r-1", 1)).loads == (later,)
    assert late(told, 0.0, 1.0) == [(0, early)]
    assert [second.take(wanted("r-1", number)).loads for number in (1, 0)] == [(later,), (early,)]


def test_a_copy_to_the_engine_that_is_told_late_is_not_lost():
    """The admission was told when its lookup was known; the next one's loads wait for it."""
    lookups = Lookups()
    lookups.answered("r-1", 0, RECORD.lookup)
    lookups.take(wanted("r-1", 0))
    lookups.joined(RECORD, "r-1")
    read, later = TierLoad(Tier.L1, 1.4, 1.3, 1, 2048), TierLoad(Tier.L2, 4.8, 4.7, 1, 2048)

    lookups.loaded("r-1", read)
    assert late(lookups, 0.0, 1.0) == [(0, read)]
    lookups.loaded("r-1", later)
    lookups.answered("r-1", 1, CacheLookup("server", 4.9, 64, 0, 4.6))

    assert late(lookups, 2.0, 3.0) == []
    assert lookups.take(wanted("r-1", 1)).loads == (later,)


def test_admissions_that_were_told_are_forgotten_the_oldest_first(monkeypatch):
    """What is stored long after them has no span."""
    monkeypatch.setattr(module, "MOST_TOLD", 1)
    lookups = Lookups()
    lookups.joined(RECORD, "r-1")
    lookups.joined(RECORD, "r-2")
    lookups.stored("r-1", store(2.0))
    lookups.stored("r-2", store(2.0))

    assert late(lookups, 0.0, 1.0) == [(0, store(2.0))]
