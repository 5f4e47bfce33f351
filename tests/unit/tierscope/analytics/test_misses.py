"""Each cause planted by hand, alone; and causes that add up whatever the window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive
from tests.strategies import prefix_forest_paths
from tests.unit.tierscope.analytics.test_curve import chains_of_paths
from tests.workloads import BLOCK_TOKENS, BYTES_PER_TOKEN, CHUNK_TOKENS, chain_hashes, window
from tierscope.analytics.depths import held_blocks
from tierscope.analytics.misses import Cause, Misses, Room, TierUnits, miss_causes
from tierscope.analytics.routing_loss import routing_loss
from tierscope.domain.tiers import Tier
from tierscope.traces.paths import Paths

AMPLE = {Tier.L0: 1000, Tier.L1: 1000, Tier.L2: 1000}
DOCUMENT = 16 * BLOCK_TOKENS


def causes(recorded, units=AMPLE, *, ttl=None) -> Misses:
    return miss_causes(recorded, CHUNK_TOKENS, TierUnits(units, BYTES_PER_TOKEN, ttl))


def told(misses: Misses) -> dict[str, int]:
    return {cause.value: tokens for cause, tokens in misses.totals().items() if tokens}


def test_what_nobody_asked_for_before_is_compulsory():
    """And the token that no block holds is nobody's fault either."""
    assert told(causes(window([chain_hashes(0, 16)]))) == {"compulsory": DOCUMENT, "granularity": 1}


def test_what_another_replica_has_is_a_matter_of_routing():
    """The same document twice, on two replicas, without a pool."""
    recorded = window([chain_hashes(0, 16)] * 2, replicas=2)

    assert told(causes(recorded, {Tier.L0: 1000})) == {
        "compulsory": DOCUMENT,
        "routing": DOCUMENT,
        "granularity": 2,
    }


def test_what_there_was_no_room_for_is_capacity_and_how_much_is_told():
    """Three documents in turn through an L1 of two: a quarter more keeps half, half as much again all."""
    recorded = window([chain_hashes(i % 3, 16) for i in range(9)])
    chunks = 16 * BLOCK_TOKENS // CHUNK_TOKENS
    misses = causes(recorded, {Tier.L1: 2 * chunks})

    assert told(misses) == {"compulsory": 3 * DOCUMENT, "capacity_l1": 6 * DOCUMENT, "granularity": 9}
    assert [(row.extra_bytes, row.tokens) for row in misses.room] == [
        (chunks * CHUNK_TOKENS * BYTES_PER_TOKEN / 2, 3 * DOCUMENT),
        (chunks * CHUNK_TOKENS * BYTES_PER_TOKEN, 3 * DOCUMENT),
    ]


def test_the_cheapest_room_that_would_have_hit_is_named():
    """An L0 that lacks three documents and a pool that lacks one: the pool's room is the smaller step."""
    recorded = window([chain_hashes(i % 4, 16) for i in range(12)])
    chunks = 16 * BLOCK_TOKENS // CHUNK_TOKENS

    misses = causes(recorded, {Tier.L0: 16, Tier.L2: 3 * chunks})

    assert misses.totals()[Cause.CAPACITY_L2] == 8 * DOCUMENT
    assert misses.totals()[Cause.CAPACITY_L0] == 0


def test_what_should_be_there_was_refused_or_lost():
    """The sizes hold both documents many times over, and still it was computed again."""
    recorded = window([chain_hashes(0, 16)] * 2)

    assert told(causes(recorded)) == {"compulsory": DOCUMENT, "failure": DOCUMENT, "granularity": 2}


def test_what_a_round_of_eviction_dropped_is_capacity():
    """An L1 of all three documents, of which a round has just dropped one: no failure, and room is named."""
    recorded = window([chain_hashes(i % 3, 16) for i in range(6)])
    chunks = 16 * BLOCK_TOKENS // CHUNK_TOKENS
    in_rounds = TierUnits({Tier.L1: 3 * chunks}, BYTES_PER_TOKEN, least={Tier.L1: 2 * chunks})
    misses = miss_causes(recorded, CHUNK_TOKENS, in_rounds)

    assert told(misses) == {"compulsory": 3 * DOCUMENT, "capacity_l1": 3 * DOCUMENT, "granularity": 6}
    assert misses.room == (Room(Tier.L1, DOCUMENT * BYTES_PER_TOKEN, 3 * DOCUMENT),)


def test_what_the_pool_still_had_is_no_younger_for_being_computed_again():
    """Half of a document is computed again after 1,000 s; all of it goes 1,500 s after its first writing."""
    recorded = window([chain_hashes(0, 16), chain_hashes(0, 8), chain_hashes(0, 16)], seconds=3000)

    misses = causes(recorded, {Tier.L2: 1000}, ttl=1500)

    assert misses.tokens[Cause.FAILURE].tolist() == [0, DOCUMENT // 2, 0]
    assert misses.tokens[Cause.EXPIRY].tolist() == [0, 0, DOCUMENT]


def test_what_the_pool_deleted_by_age_expired():
    """Asked again after half an hour, with chunks that live ten minutes; asked soon it would be a failure."""
    recorded = window([chain_hashes(0, 16)] * 2, seconds=3600)

    assert told(causes(recorded, {Tier.L2: 1000}, ttl=600))["expiry"] == DOCUMENT
    assert told(causes(recorded, {Tier.L2: 1000}, ttl=7200))["failure"] == DOCUMENT


def test_the_tail_of_a_chunk_is_granularity():
    """Fifteen blocks are three chunks and three blocks: only those three are beyond what lower tiers hold."""
    per_chunk = CHUNK_TOKENS // BLOCK_TOKENS
    served = np.array([0, 3 * CHUNK_TOKENS])
    recorded = window(
        [chain_hashes(0, 3 * per_chunk + 3)] * 2, hits=(np.zeros(2, np.int64), served, np.zeros(2, np.int64))
    )
    misses = causes(recorded, {Tier.L1: 1000})

    assert misses.tokens[Cause.GRANULARITY].tolist() == [1, 3 * BLOCK_TOKENS + 1]


def test_other_names_for_what_a_session_said_elsewhere_are_isolation():
    """Two replicas hash with different seeds: the second turn shares no name with the first."""
    recorded = window([chain_hashes(0, 16), chain_hashes(1, 20)], replicas=2)
    recorded = replace(recorded, session=np.array([7, 7], np.uint64))

    misses = causes(recorded)

    assert misses.tokens[Cause.ISOLATION].tolist() == [0, DOCUMENT]
    assert misses.tokens[Cause.COMPULSORY].tolist() == [DOCUMENT, 4 * BLOCK_TOKENS]


def test_a_prompt_that_was_only_edited_is_no_isolation():
    """Its first block keeps its name."""
    edited = np.concatenate((chain_hashes(0, 2), chain_hashes(1, 14)))
    recorded = window([chain_hashes(0, 16), edited], replicas=2)
    recorded = replace(recorded, session=np.array([7, 7], np.uint64))

    assert causes(recorded).totals()[Cause.ISOLATION] == 0


def test_sessions_with_prompts_of_several_kinds_are_no_isolation():
    """A session's helper begins otherwise; replicas that have any beginning in common hash alike."""
    recorded = window(
        [chain_hashes(0, 16), chain_hashes(1, 16), chain_hashes(2, 4), chain_hashes(2, 4)],
        replicas=2,
        engine=[0, 1, 0, 1],
    )
    recorded = replace(recorded, session=np.array([7, 7, 8, 9], np.uint64))

    assert causes(recorded).totals()[Cause.ISOLATION] == 0


def test_what_the_pool_has_under_another_servers_name_is_isolation():
    """One document on two replicas over one pool: found by both, or by neither what the other stored."""
    recorded = window([chain_hashes(0, 16)] * 3, replicas=3)
    sizes = TierUnits({Tier.L0: 1000, Tier.L2: 1000}, BYTES_PER_TOKEN)

    alike = miss_causes(recorded, CHUNK_TOKENS, sizes, named_by=[0, 0, 0])
    apart = miss_causes(recorded, CHUNK_TOKENS, sizes, named_by=[0, 1, 0])

    assert told(alike) == told(miss_causes(recorded, CHUNK_TOKENS, sizes))
    assert alike.tokens[Cause.FAILURE].tolist() == [0, DOCUMENT, DOCUMENT]
    assert apart.tokens[Cause.ISOLATION].tolist() == [0, DOCUMENT, 0]
    assert apart.tokens[Cause.FAILURE].tolist() == [0, 0, DOCUMENT]


def test_what_expired_under_ones_own_name_is_as_old_as_its_own_writing():
    """Two servers write one document under two names, half an hour apart; each name lives an hour."""
    recorded = window([chain_hashes(0, 16)] * 4, replicas=2, seconds=7200)
    sizes = TierUnits({Tier.L2: 1000}, BYTES_PER_TOKEN, l2_ttl_seconds=3000)

    apart = miss_causes(recorded, CHUNK_TOKENS, sizes, named_by=[0, 1])

    assert apart.tokens[Cause.EXPIRY].tolist() == [0, 0, DOCUMENT, DOCUMENT]
    assert apart.tokens[Cause.ISOLATION].tolist() == [0, DOCUMENT, 0, 0]


def test_a_cause_has_its_price():
    """A thousandth of a second a token, a third of a cent a second."""
    seconds, money = causes(window([chain_hashes(0, 16)])).costs(0.001, 1 / 300)[Cause.COMPULSORY]

    assert seconds == pytest.approx(DOCUMENT / 1000)
    assert money == pytest.approx(DOCUMENT / 1000 / 300)


def test_a_recorded_workload_says_what_it_could_hit_what_it_did_and_why_not_more():
    """UD-62: a ceiling from what repeats, what was hit, and the gap by reason, to the token."""
    lists = [chain_hashes(i % 3, 16) for i in range(6)]
    served = np.array([0, 0, 0, DOCUMENT, 0, 0], np.int64)
    nothing = np.zeros(6, np.int64)
    recorded = window(lists, replicas=2, engine=[0, 0, 0, 0, 1, 1], hits=(served, nothing, nothing))

    told_of = told(causes(recorded, {Tier.L0: 48}))

    ceiling = int(recorded.prompt.sum()) - told_of.pop("compulsory") - told_of.pop("granularity")
    assert ceiling == 3 * DOCUMENT
    assert told_of == {"routing": 2 * DOCUMENT}
    assert sum(told_of.values()) + DOCUMENT == ceiling


def test_a_wrong_pick_and_a_wrong_index_are_told_apart():
    """UD-14: predicted 640, delivered 400, best 800: 160 lost by the pick, 240 by what the index believed."""
    loss = routing_loss(np.array([500, 300]), np.array([400, 240]), np.array([400, 0]))

    assert loss == (800, 400, 160, 240)


@given(lists=prefix_forest_paths(), data=st.data())
def test_causes_add_up_to_what_was_computed(lists, data):
    """Whatever was served, by whom, at any sizes: nothing is left over, nothing counted twice."""
    chains = [np.array(path, np.uint64) + np.uint64(1) for path in lists]
    served = [data.draw(st.integers(0, len(path) * BLOCK_TOKENS)) for path in lists]
    nothing = np.zeros(len(lists), np.int64)
    recorded = window(chains, replicas=2, hits=(np.array(served, np.int64), nothing, nothing))
    session = np.array([data.draw(st.integers(0, 2)) for _ in lists], np.uint64)
    units = {tier: data.draw(st.integers(0, 12)) for tier in Tier}

    misses = causes(
        replace(recorded, session=session), units, ttl=data.draw(st.none() | st.integers(1, 2000))
    )

    assert np.array_equal(sum(misses.tokens.values()), recorded.computed)
    assert all(tokens.min(initial=0) >= 0 for tokens in misses.tokens.values())
    capacity = sum(misses.totals()[cause] for cause in Cause if cause.name.startswith("CAPACITY"))
    assert sum(row.tokens for row in misses.room) == capacity


@given(lists=prefix_forest_paths(), data=st.data())
def test_looking_into_a_cache_changes_nothing_in_it(lists, data):
    """Each request sees what a cache holds that only the marked ones go through."""
    touches = [data.draw(st.booleans()) for _ in lists]
    capacity = data.draw(st.integers(0, 12))
    chains = chains_of_paths(lists)

    hits = held_blocks(Paths(chains.offsets, chains.ids, chains.n_ids), np.array(touches, np.bool_), capacity)

    lru, expected = naive.NaiveLru(), []
    for path, touching in zip(lists, touches, strict=True):
        expected.append(naive.leading_hits(lru.depths(path), capacity))
        if touching:
            lru.touch(path)
    assert hits.tolist() == expected
