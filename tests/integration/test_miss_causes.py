"""Causes planted in a deployment of the testbed, against why each of its tokens really was computed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.fleet_records import run_fleet
from tests.missing_truth import Truth
from tierscope.analytics.chunk_names import named_by
from tierscope.analytics.misses import CAPACITY, Cause, Misses, TierUnits, miss_causes
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.window import Evidence
from tierscope.testbed.config import Faults, Incident, IncidentKind, Mix, TestbedConfig

AMPLE = TestbedConfig(
    duration_seconds=450.0,
    replicas=2,
    mix=Mix(abort_ratio=0.0, salted_ratio=0.0),
    l0_bytes=40 * GIB,
    l1_bytes=400 * GIB,
    l2_bytes=0,
    l2_ttl_seconds=None,
)
"""Room for everything on each of two replicas, and no pool between them."""


def named(config: TestbedConfig, evidence: Evidence, *, usable=1.0, least=1.0) -> Misses:
    """Causes of all computed tokens; L1 holds `usable` of its memory, and `least` of that at any time."""
    l1 = int(config.l1_chunks * usable)
    units = {
        Tier.L0: config.l0_blocks - 1,
        Tier.L1: l1,
        Tier.L2: int(config.l2_bytes // config.chunk_bytes),
    }
    sizes = TierUnits(units, config.bytes_per_token, config.l2_ttl_seconds, {Tier.L1: int(l1 * least)})
    window = evidence.window
    ways = named_by(evidence.beginnings, window.engines)
    misses = miss_causes(window, config.tokens_per_chunk, sizes, named_by=ways)

    assert np.array_equal(sum(misses.tokens.values()), window.computed)
    return misses


def right(
    config: TestbedConfig, cause: str, *, exactly=("compulsory", "granularity"), **sizes: float
) -> float:
    """Share of the tokens that were really computed for a cause which are named so, request by request.

    Causes that are told `exactly` are, to the token.
    """
    truth = Truth(config)
    misses = named(config, run_fleet(config, truth), **sizes)
    told: dict[str, np.ndarray] = {}
    for each, tokens in misses.tokens.items():
        name = "capacity" if each in CAPACITY.values() else each.value
        told[name] = told.get(name, 0) + tokens
    really = {name: np.array([why[name] for why in truth.requests]) for name in told}

    assert np.array_equal(sum(really.values()), sum(told.values()))
    for each in exactly:
        assert np.array_equal(really[each], told[each])
    assert really[cause].sum() > 100_000
    return float(np.minimum(told[cause], really[cause]).sum() / really[cause].sum())


def test_a_misroute_is_named_in_99_of_100_tokens():
    """Sessions in turn over two replicas that share nothing: what one has, the other computes again."""
    assert right(AMPLE, "routing") >= 0.99


def test_a_small_l1_is_named_in_99_of_100_tokens_and_the_room_it_lacks():
    """One replica with little memory, freed in rounds: what a round dropped is capacity and no failure."""
    config = replace(AMPLE, replicas=1, l0_bytes=3 * GIB, l1_bytes=6 * GIB)
    room = named(config, run_fleet(config), usable=0.7, least=6 / 7).room

    assert right(config, "capacity", usable=0.7, least=6 / 7) >= 0.99
    by_tier = Counter({tier: sum(row.tokens for row in room if row.tier is tier) for tier in Tier})
    assert by_tier[Tier.L1] > by_tier[Tier.L0]
    assert all(row.extra_bytes > 0 for row in room)


def test_a_short_time_to_live_is_named_in_99_of_100_tokens():
    """A pool that forgets after two minutes, over an L1 that keeps next to nothing."""
    config = replace(
        AMPLE,
        replicas=1,
        l0_bytes=3 * GIB,
        l1_bytes=30 * GIB,
        l2_bytes=1000 * GIB,
        l2_ttl_seconds=120.0,
        l2_ttl_check_seconds=1.0,
        l1_watermark_ratio=0.1,
        l1_eviction_ratio=1.0,
        l1_retain_loads=False,
    )

    assert right(config, "expiry", usable=0.0) >= 0.99


def test_refused_stores_are_named_in_99_of_100_tokens():
    """Stores of 64 chunks into an L1 that is full and makes little room a second; it refuses most of them."""
    config = replace(
        AMPLE,
        replicas=1,
        l0_bytes=3 * GIB,
        l1_bytes=8 * GIB,
        store_batch_chunks=64,
        l1_watermark_ratio=1.0,
        l1_eviction_ratio=0.05,
    )

    assert right(config, "failure") >= 0.99


def test_cache_servers_that_name_chunks_differently_are_named_in_99_of_100_tokens():
    """Sessions in turn over two replicas on one pool, in which neither finds what the other stored."""
    mismatch = Incident(kind=IncidentKind.SEED_MISMATCH, at_seconds=0.0)
    config = replace(
        AMPLE,
        l0_bytes=3 * GIB,
        l1_bytes=30 * GIB,
        l2_bytes=1000 * GIB,
        faults=Faults(incidents=(mismatch,)),
    )

    assert right(config, "isolation", exactly=("compulsory",), usable=0.7, least=6 / 7) >= 0.99


@pytest.fixture(scope="module")
def misrouted() -> Evidence:
    """Sessions in turn over two replicas that share nothing."""
    return run_fleet(AMPLE)


def test_engines_that_name_blocks_differently_are_isolation_and_never_bad_routing(misrouted):
    """The second engine under other names: what sessions give away is isolation, and nothing else is named.

    Prompts of sessions that never met both replicas tell nothing, and count as new.
    """
    window = misrouted.window
    second = np.repeat(window.engine == 1, np.diff(window.offsets))
    renamed = np.where(second, window.block_hashes ^ np.uint64(0x5EED), window.block_hashes)
    evidence = Evidence(replace(window, block_hashes=renamed), misrouted.samples)

    told = named(AMPLE, evidence).totals()

    avoidable = sum(told.values()) - told[Cause.COMPULSORY] - told[Cause.GRANULARITY]
    assert told[Cause.ISOLATION] >= 0.99 * avoidable
    assert told[Cause.ROUTING] == 0
