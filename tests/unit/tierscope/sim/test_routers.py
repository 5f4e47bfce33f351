"""Each router on ten requests made by hand, with the picks the real one makes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.tierscope.sim.test_fleet import BLOCK, trace_of
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.errors import BadInput
from tierscope.sim import routers
from tierscope.sim.lmcache import empty_shelves
from tierscope.sim.memory import empty_memory, leading, pin, unpin
from tierscope.sim.routers import gateway, kvaware
from tierscope.sim.routers.arrivals import arrivals_of
from tierscope.sim.routers.least_asked import count, least_asked, nothing_asked
from tierscope.sim.routers.prefixaware import pieces_of, place_with

RNG = np.random.default_rng
PIECE = 128 // 4 // BLOCK
"""Blocks of 128 characters."""


def placed(policy, lists, replicas, *, session=None, **more):
    arrivals = arrivals_of(trace_of(lists, session=session))
    return routers.place(policy, arrivals, replicas, RNG(1), **more).tolist()


def unrelated(count):
    """Prompts of four blocks that share nothing."""
    return [[4 * i + k for k in range(4)] for i in range(count)]


def test_roundrobin_takes_turns():
    """Whatever is asked."""
    assert placed(RoutingPolicy.ROUNDROBIN, unrelated(10), 3) == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]


def test_session_keeps_each_session_where_it_is():
    """Four sessions over ten requests: the same owner each time; what has none goes to the least asked."""
    session = [0, 1, 2, 3, 0, 1, 2, 3, -1, -1]
    picks = placed(RoutingPolicy.SESSION, unrelated(10), 4, session=session)

    assert picks[:4] == picks[4:8]
    by_load = sorted(range(4), key=lambda replica: (picks[:8].count(replica), replica))
    assert picks[8] == by_load[0]


def test_a_ring_is_about_fair_and_moves_few_sessions():
    """4,000 sessions on 4 replicas, within a quarter of the mean; a fifth replica takes about a fifth."""
    session = np.arange(4000, dtype=np.int32)
    four, five = (routers.session.owners(session, replicas) for replicas in (4, 5))

    assert np.bincount(four).min() > 750
    assert np.bincount(four).max() < 1250
    assert 0.1 < np.mean(four != five) < 0.3
    assert np.all(five[four != five] == 4)


def test_prefixaware_gives_a_shared_beginning_to_whoever_had_it_first():
    """The monopoly: ten prompts with the same first 128 characters, one replica serves them all."""
    shared = list(range(PIECE))
    lists = [shared + [100 + 4 * i + k for k in range(4)] for i in range(10)]

    assert len(set(placed(RoutingPolicy.PREFIXAWARE, lists, 4))) == 1


def test_prefixaware_is_blind_below_a_piece():
    """Beginnings that differ in their first piece are unrelated to it, and spread at random."""
    picks = placed(RoutingPolicy.PREFIXAWARE, unrelated(400), 4)

    assert np.bincount(picks, minlength=4).min() > 60


def test_prefixaware_follows_a_conversation():
    """Turn after turn extends the prompt before it; two conversations, each with its replica."""
    a, b = list(range(2 * PIECE)), list(range(100, 100 + 2 * PIECE))
    lists = [a, b, [*a, 50, 51], [*b, 150, 151], [*a, 50, 51, 52], a, b, [*b, 150], [*a, 60], [*b, 160]]
    picks = placed(RoutingPolicy.PREFIXAWARE, lists, 8)

    assert picks == [picks[0], picks[1], picks[0], picks[1], picks[0], *(picks[:2]), picks[1], *picks[:2]]


def test_several_routers_learn_several_owners():
    """Two router replicas over the monopoly's trace: each latches on to its own first pick."""
    shared = list(range(PIECE))
    lists = [[*shared, 100 + i] for i in range(60)]
    picks = {
        frozenset(
            routers.place(RoutingPolicy.PREFIXAWARE, arrivals_of(trace_of(lists)), 8, RNG(seed), routers=2)
        )
        for seed in range(10)
    }

    assert max(map(len, picks)) == 2


def test_a_minimal_match_longer_than_what_is_shared_spreads_users():
    """First turns share less than the minimum and go in turn to the least asked; their second turns stick."""
    shared = list(range(PIECE))
    first = [shared + [100 + 10 * i + k for k in range(4 * PIECE)] for i in range(5)]
    second = [[*path, 200 + 10 * i] for i, path in enumerate(first)]
    picks = place_with(arrivals_of(trace_of(first + second)), 5, RNG(1), min_match_characters=256).tolist()

    assert picks == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_prefixaware_has_marks_for_so_many_replicas():
    """More are refused, not wrapped."""
    with pytest.raises(BadInput, match="63 replicas"):
        placed(RoutingPolicy.PREFIXAWARE, unrelated(2), 63)


def test_blocks_longer_than_a_piece_are_pieces():
    """Blocks of 512 tokens are 2,048 characters: the finest that such a trace can tell."""
    assert (pieces_of(16), pieces_of(512)) == ((2, 128), (1, 2048))


def holding(*held):
    """L1s that hold these chunks, replica by replica."""
    shelves = empty_shelves(len(held), 16)
    for replica, chunks in enumerate(held):
        shelves.held[replica, list(chunks)] = True
    return shelves


PROMPT = np.arange(8, dtype=np.int32)
"""2,048 tokens and a tail in chunks of 256, as found with the real controller."""


@pytest.mark.parametrize(
    ("held", "tokens", "expected"),
    [
        ([(0,), (), range(8)], 2148, 0),
        ([(0,), range(5), range(8)], 2148, 0),
        ([(), range(5), range(8)], 2148, 1),
        ([(), (), range(8)], 2148, 2),
        ([(), (), ()], 2148, kvaware.NOBODY),
        ([(1, 2), (), range(8)], 2148, 2),
        ([(0,), (), range(8)], 2257, kvaware.NOBODY),
        ([(), (), range(8)], 4048, 2),
        ([(), (), range(8)], 4049, kvaware.NOBODY),
        ([(0,), (), ()], 1900, 0),
    ],
)
def test_kvaware_goes_to_the_first_registered_holder(held, tokens, expected):
    """Not to who holds most; and to nobody where that one leaves more than 2,000 tokens."""
    assert kvaware.pick(holding(*held), PROMPT, tokens, 256) == expected


def gateway_pick(waiting=(0, 0, 0), busy=(0, 0, 0), known=(0, 0, 0), draw=0.5):
    """A pick among three replicas of ten blocks, for a prompt of eight."""
    remembered = empty_memory(3, 16, 10)
    for replica in range(3):
        gateway.learn(remembered, replica, PROMPT[: known[replica]])
    shares = np.array([leading(remembered, replica, PROMPT, 8) / 8 for replica in range(3)])
    return gateway.pick(gateway.Weights(), np.array(waiting, np.int64), np.array(busy) / 10, shares, draw)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"draw": 0.0}, 0),
        ({"draw": 0.99}, 2),
        ({"known": (0, 8, 0)}, 1),
        ({"known": (2, 4, 6)}, 2),
        ({"busy": (5, 5, 0)}, 2),
        ({"known": (0, 8, 0), "busy": (0, 8, 0)}, 1),
        ({"waiting": (0, 1, 0), "known": (0, 8, 0)}, 1),
        ({"waiting": (0, 1, 0), "known": (0, 8, 0), "busy": (0, 8, 0)}, 0),
        ({"waiting": (3, 1, 2)}, 1),
        ({"waiting": (9, 9, 9), "known": (0, 0, 1)}, 2),
    ],
)
def test_the_gateway_adds_up_its_scores(seen, expected):
    """A whole prefix is worth 3, one waiting request 2, and memory in use up to 2."""
    pick = gateway_pick(**{"draw": 0.0, **seen})

    assert pick == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ((0, 0, 0), (0, 0, 0)),
        ((0, 0.2, 0), (0, 1, 0)),
        ((0.8, 0.8, 0), (1, 1, 0)),
        ((1, 0.8, 0), (1, 0, 0)),
        ((1, 0.8, 0.9), (1, 0, 0.5)),
    ],
)
def test_until_may_2026_shares_were_spread_from_the_least_to_the_most(known, expected):
    """Among those that have anything: who has all but a question is worth nothing beside who has that too."""
    shares = np.array(known, np.float64)

    gateway.spread(shares)

    assert shares == pytest.approx(expected)


def test_the_gateway_remembers_what_the_engine_forgot():
    """Its memory is its own: eviction in the engine changes nothing, only its own limit does."""
    remembered = empty_memory(1, 40, 10)
    for start in (0, 8):
        gateway.learn(remembered, 0, np.arange(start, start + 8, dtype=np.int32))

    assert int(remembered.there.sum()) == 10
    assert remembered.there[0, 8:16].all()


def test_least_asked_counts_arrivals_of_a_minute():
    """Never asked first; then the fewest in the last 60 s; what is older does not count."""
    asked = nothing_asked(2, 10)
    assert least_asked(asked, 0) == 0
    count(asked, 0, 0)
    assert least_asked(asked, 0) == 1
    count(asked, 1, 1)
    count(asked, 1, 2)
    assert least_asked(asked, 3) == 0
    count(asked, 0, 59_000)
    count(asked, 0, 59_001)
    assert least_asked(asked, 59_002) == 1
    assert least_asked(asked, 60_002) == 1
    assert least_asked(asked, 130_000) == 0


def test_memory_pins_what_runs():
    """Pinned blocks stay; a prompt that does not fit beside them waits; ended ones make room, leaf first."""
    memory = empty_memory(1, 16, 6)
    a, b = np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)

    assert pin(memory, 0, a, 1)
    assert not pin(memory, 0, b, 0)
    unpin(memory, 0, a, 4, 1)
    assert pin(memory, 0, b, 0)
    assert memory.there[0, :8].tolist() == [True, True, False, False, True, True, True, True]
