"""What comes into L1, what leaves it, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_lmcache import keys, metas
from tierscope_probe.lmcache_contents import L1Contents
from tierscope_probe.lmcache_records import Writer

TAG = "_default"


class Desk:
    """L1's contents and the records made of them, one second an event."""

    def __init__(self) -> None:
        self.now = 0.0
        self.contents = L1Contents(Writer())
        self.records: list[dict] = []

    def arrive(self, *chunks: str, source: str = "store", **which: object) -> None:
        self._take(self.contents.arrived, *chunks, then=(source,), **which)

    def leave(self, *chunks: str, **which: object) -> None:
        self._take(self.contents.left, *chunks, **which)

    def read(self, *chunks: str, tag: str = TAG) -> None:
        self.contents.read_ended(tag, keys(*chunks))

    def tick(self, triggered: bool) -> None:
        self.records += self.contents.ticked(self.now + 0.001, triggered)

    def _take(self, take, *chunks: str, then: tuple = (), tag: str = TAG, **which: object) -> None:
        self.now += 1
        self.records += take(self.now, tag, keys(*chunks, **which), metas(len(chunks)), *then)

    @property
    def departures(self) -> list[tuple]:
        return [
            (record["reason"], [chunk.decode().strip(".") for chunk in record["chunks"]])
            for record in self.records
            if record["t"] == "l1_evicted"
        ]


@pytest.fixture
def desk() -> Desk:
    here = Desk()
    here.arrive("a", "b", "c", "d")
    return here


def test_what_leaves_with_the_end_of_its_read_was_loaded_for_it(desk):
    """It is told at once, without waiting for a tick."""
    desk.read("a", "b")
    desk.leave("b")

    assert desk.departures == [("after_read", ["b"])]


def test_a_read_that_drops_nothing_explains_no_later_departure(desk):
    """Its own empty departure is used up."""
    desk.read("a")
    desk.leave()
    desk.leave("a")
    desk.tick(triggered=True)

    assert desk.departures == [("capacity", ["a"])]


def test_reads_of_another_manager_explain_nothing(desk):
    """Two L1 managers share one bus."""
    desk.arrive("x", tag="gds")
    desk.read("a", tag=TAG)
    desk.leave("x", tag="gds")
    desk.tick(triggered=True)

    assert desk.departures == [("capacity", ["x"])]


def test_a_departure_of_other_keys_is_not_the_reads_own(desk):
    """Where the bus lost the read's own departure, the next one is not taken for it."""
    desk.read("a")
    desk.leave("b")
    desk.tick(triggered=True)

    assert desk.departures == [("capacity", ["b"])]


def test_a_tick_that_evicted_explains_the_departure_before_it(desk):
    """Earlier ones since the last tick were asked for."""
    desk.leave("a")
    desk.leave("b", "c")
    desk.tick(triggered=True)

    assert desk.departures == [("delete", ["a"]), ("capacity", ["b", "c"])]


def test_an_eviction_that_found_nothing_explains_nothing_before_it(desk):
    """The loop reports its empty round too."""
    desk.leave("a")
    desk.leave()
    desk.tick(triggered=True)

    assert desk.departures == [("delete", ["a"])]


def test_a_round_that_deleted_nothing_explains_no_older_departure(desk):
    """A policy that never evicts ticks all the same."""
    desk.leave("a")
    desk.now += 0.5
    desk.tick(triggered=True)

    assert desk.departures == [("delete", ["a"])]


def test_when_nothing_is_left_it_was_cleared(desk):
    """Without an eviction somebody asked for it: for everything."""
    desk.leave("a", "b", "c", "d")
    desk.tick(triggered=False)

    assert desk.departures == [("clear", ["a", "b", "c", "d"])]


def test_a_departure_whose_tick_never_comes_has_no_known_reason(desk):
    """After a few seconds it is told all the same, once."""
    desk.leave("a")

    assert desk.contents.overdue(desk.now + 1) == []
    desk.records += desk.contents.overdue(desk.now + 60)
    assert desk.departures == [("unknown", ["a"])]
    assert desk.contents.overdue(desk.now + 120) == []


def test_ranks_of_a_chunk_count_as_one(desk):
    """It arrives with its first key and leaves with its last; keys are counted as the server counts them."""
    desk.arrive("a", rank=1)
    desk.read("a")
    desk.leave("a")
    desk.read("a")
    desk.leave("a", rank=1)

    arrived, first, last = desk.records[1:]
    assert (arrived["keys"], arrived["chunks"]) == (1, [])
    assert (first["keys"], first["chunks"]) == (1, [])
    assert (last["keys"], len(last["chunks"])) == (1, 1)


def test_salts_and_models_have_chunks_of_their_own(desk):
    """Equal hashes under another salt are other objects, told in another record; the salt is a digest."""
    desk.arrive("a", salt="tenant-7")

    record = desk.records[-1]
    assert len(record["chunks"]) == 1
    assert record["salt"] not in (None, "tenant-7")
    assert desk.records[0]["salt"] is None


steps = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "leave", "read", "tick", "quiet"]),
        st.sets(st.sampled_from("abcdef"), max_size=4),
    ),
    max_size=40,
)


@given(steps=steps)
def test_a_reader_that_follows_the_records_knows_the_contents(steps):
    """Whatever happens, arrivals and departures come in order, once, each with a reason."""
    desk = Desk()
    present: set[str] = set()
    for what, chunks in steps:
        if what == "arrive":
            desk.arrive(*sorted(chunks - present))
            present |= chunks
        elif what == "leave":
            desk.leave(*sorted(chunks & present))
            present -= chunks
        elif what == "read":
            desk.read(*sorted(chunks & present))
            desk.leave(*sorted(chunks & present)[:1])
            present -= set(sorted(chunks & present)[:1])
        else:
            desk.tick(triggered=what == "tick")
    desk.records += desk.contents.overdue(float("inf"))

    followed: set[bytes] = set()
    for record in desk.records:
        chunks = set(record["chunks"])
        if record["t"] == "l1_stored":
            assert not followed & chunks
            followed |= chunks
        else:
            assert record["reason"] in ("after_read", "capacity", "clear", "delete", "unknown")
            assert chunks <= followed
            followed -= chunks
    assert {chunk.decode().strip(".") for chunk in followed} == present
