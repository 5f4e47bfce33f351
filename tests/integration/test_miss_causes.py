"""Causes planted in a deployment of the testbed, whose engines share no code with what names them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fleet_records import run_fleet
from tierscope.analytics.misses import Cause, TierUnits, miss_causes
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.window import RequestWindow
from tierscope.testbed.config import Mix, TestbedConfig

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


def causes(config: TestbedConfig, window: RequestWindow, *, l1_usable_ratio=1.0) -> dict[Cause, float]:
    """Shares of what was computed for other reasons than being new or not a whole block."""
    units = {
        Tier.L0: config.l0_blocks - 1,
        Tier.L1: int(config.l1_chunks * l1_usable_ratio),
        Tier.L2: int(config.l2_bytes // config.chunk_bytes),
    }
    sizes = TierUnits(units, config.bytes_per_token, config.l2_ttl_seconds)
    misses = miss_causes(window, config.tokens_per_chunk, sizes)

    assert np.array_equal(sum(misses.tokens.values()), window.computed)
    told = misses.totals()
    avoidable = sum(told.values()) - told[Cause.COMPULSORY] - told[Cause.GRANULARITY]
    return {cause: tokens / avoidable for cause, tokens in told.items()}


@pytest.fixture(scope="module")
def misrouted() -> RequestWindow:
    """Sessions in turn over two replicas that share nothing."""
    return run_fleet(AMPLE).window


def test_a_misroute_is_named_in_99_of_100_tokens(misrouted):
    """What one replica has, the other computes again."""
    assert causes(AMPLE, misrouted)[Cause.ROUTING] >= 0.99


def test_a_seed_of_its_own_is_isolation_and_never_bad_routing(misrouted):
    """The second replica under other names: what sessions give away is isolation, and nothing else is named.

    Prompts of sessions that never met both replicas tell nothing, and count as new.
    """
    second = np.repeat(misrouted.engine == 1, np.diff(misrouted.offsets))
    renamed = np.where(second, misrouted.block_hashes ^ np.uint64(0x5EED), misrouted.block_hashes)

    told = causes(AMPLE, replace(misrouted, block_hashes=renamed))

    assert told[Cause.ISOLATION] >= 0.99
    assert told[Cause.ROUTING] == 0


def test_a_small_l1_is_named_and_the_room_it_lacks():
    """One replica, little memory: capacity, of L1 more than of L0; what eviction in rounds adds is little."""
    config = replace(AMPLE, replicas=1, l0_bytes=3 * GIB, l1_bytes=6 * GIB)
    told = causes(config, run_fleet(config).window, l1_usable_ratio=0.7)

    assert told[Cause.CAPACITY_L1] > told[Cause.CAPACITY_L0]
    assert told[Cause.CAPACITY_L1] + told[Cause.CAPACITY_L0] > 0.93
    assert told[Cause.ROUTING] == 0


def test_a_short_time_to_live_is_named():
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
    told = causes(config, run_fleet(config).window, l1_usable_ratio=0.0)

    assert told[Cause.EXPIRY] > 0.8
    assert told[Cause.CAPACITY_L2] == 0
