"""What readings of a pool say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive
from tierscope.analytics.pool import PoolReading, find_orphans, pool_growth, unserved_models
from tierscope.domain.errors import BadInput
from tierscope.domain.units import GIB

EARLIER = PoolReading(1000.0, files=100, file_bytes=10 * GIB, removed_blocks=0)
LATER = PoolReading(1000.0 + 1800, files=150, file_bytes=15 * GIB, removed_blocks=0)


def sized(reading, used, capacity=100):
    return replace(reading, used_bytes=used * GIB, capacity_bytes=capacity * GIB)


def test_a_pool_that_never_evicts_says_when_it_is_full():
    """5 GiB in half an hour; 40 GiB are left, so four hours."""
    growth = pool_growth(sized(EARLIER, 55), sized(LATER, 60))

    assert growth.files_per_hour == 100
    assert growth.fill_bytes_per_hour == growth.file_bytes_per_hour == 10 * GIB
    assert not growth.evicts
    assert growth.seconds_until_full == pytest.approx(4 * 3600)


def test_the_pool_fills_by_everything_in_it():
    """A neighbour's files count: the pool has no quota."""
    growth = pool_growth(sized(EARLIER, 40), sized(LATER, 60))

    assert growth.fill_bytes_per_hour == 40 * GIB
    assert growth.file_bytes_per_hour == 10 * GIB
    assert growth.seconds_until_full == pytest.approx(3600)


def test_without_the_used_bytes_the_directory_has_to_do():
    """And without a size nothing is said of its end."""
    assert pool_growth(EARLIER, LATER).seconds_until_full is None
    assert pool_growth(
        EARLIER, replace(LATER, capacity_bytes=25.0 * GIB)
    ).seconds_until_full == pytest.approx(3600)


@pytest.mark.parametrize("used", [55, 40])
def test_a_pool_that_does_not_grow_is_never_full(used):
    """Standing still or shrinking."""
    growth = pool_growth(sized(EARLIER, 55), sized(replace(LATER, removed_blocks=7), used))

    assert growth.seconds_until_full is None
    assert growth.evicts


def test_a_pool_shrunk_below_its_content_is_full_now():
    """Capacity may fall below what is used."""
    assert pool_growth(sized(EARLIER, 55), sized(LATER, 60, capacity=50)).seconds_until_full == 0


@pytest.mark.parametrize("later", [EARLIER, replace(EARLIER, at_unix_seconds=0.0)])
def test_readings_out_of_order_are_refused(later):
    """A rate over no time is none."""
    with pytest.raises(BadInput, match="not in order"):
        pool_growth(EARLIER, later)


def test_a_counter_that_fell_is_refused():
    """The exporter restarted between the two."""
    with pytest.raises(BadInput, match="not in order"):
        pool_growth(replace(EARLIER, removed_blocks=5), LATER)


chains_of_hashes = st.lists(st.lists(st.integers(0, 30), max_size=6, unique=True), max_size=6)


@given(present=st.lists(st.integers(0, 30), max_size=20), chains=chains_of_hashes)
def test_orphans_are_those_that_no_chain_reaches(present, chains):
    """By walking every chain from its root, chunk by chunk."""
    found = find_orphans(
        np.array(present, dtype=np.uint64), [np.array(chain, dtype=np.uint64) for chain in chains]
    )

    judged, orphans = naive.orphans(set(present), chains)
    assert (found.chunks, found.chained) == (len(set(present)), judged)
    assert found.orphans.tolist() == sorted(orphans)


def test_a_chunk_of_no_known_chain_is_not_judged():
    """Its name does not say what comes before it."""
    found = find_orphans(np.array([1, 2, 9], dtype=np.uint64), [np.array([1, 5, 2], dtype=np.uint64)])

    assert (found.chunks, found.chained, found.orphans.tolist()) == (3, 2, [2])


def test_models_nobody_serves_are_told_by_the_last_part_of_their_names():
    """A path and a served name are the same model; a model that was replaced is left over."""
    found = {"/models/org/Llama-8B", "org/old-7b", "tiny"}

    assert unserved_models(found, {"meta/llama-8b", "tiny/"}) == ("org/old-7b",)
