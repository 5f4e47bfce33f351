"""The chain kernels against their slow twins, and laws that need no oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import naive
from tests.strategies import prefix_forest_paths
from tierscope.analytics.chains import Chains, numbered
from tierscope.analytics.curve import hit_blocks_per_request, hit_ratio_curve
from tierscope.domain.errors import BadInput

BLOCK_TOKENS = 16


def chains_of_paths(paths: list[list[int]]) -> Chains:
    offsets = np.concatenate(([0], np.cumsum([len(path) for path in paths], dtype=np.int64)), dtype=np.int64)
    ids = np.array([block for path in paths for block in path], dtype=np.int32)
    return Chains(offsets, ids, int(ids.max(initial=-1)) + 1)


def every_capacity(chains: Chains) -> np.ndarray:
    return np.arange(chains.n_ids + 2)


@given(paths=prefix_forest_paths())
def test_hits_of_each_request_are_those_of_a_replayed_cache(paths):
    """At every capacity each request hits as many leading blocks as in a cache that really evicts."""
    chains = chains_of_paths(paths)
    capacities = every_capacity(chains)

    hits = hit_blocks_per_request(chains, capacities)

    for capacity in capacities:
        assert hits[:, capacity].tolist() == naive.hits_by_replaying_a_cache(paths, int(capacity))


@given(paths=prefix_forest_paths())
def test_depths_along_a_path_never_fall(paths):
    """So a capacity's hits are a prefix of the path, and reading depths or replaying a cache agree."""
    for capacity in range(12):
        by_depth = [naive.leading_hits(depths, capacity) for depths in naive.request_depths(paths)]
        assert by_depth == naive.hits_by_replaying_a_cache(paths, capacity)


@given(paths=prefix_forest_paths(), data=st.data())
def test_the_curve_is_the_sum_over_counted_requests(paths, data):
    """Block-weighted, at every capacity, with any number of requests that only warm the tier."""
    chains = chains_of_paths(paths)
    first_counted = data.draw(st.integers(0, len(paths)))

    curve = hit_ratio_curve(chains, first_counted=first_counted)

    hits = hit_blocks_per_request(chains, every_capacity(chains))[first_counted:].sum(axis=0)
    counted = sum(len(path) for path in paths[first_counted:])
    assert curve.total_weight == counted
    assert curve.at(every_capacity(chains)) == pytest.approx(hits / counted if counted else hits)


@given(paths=prefix_forest_paths(), data=st.data())
def test_a_partial_last_block_weighs_its_tokens(paths, data):
    """Token-weighted, a hit on a request's last block saves only the tokens that block holds."""
    chains = chains_of_paths(paths)
    last = [data.draw(st.integers(1, BLOCK_TOKENS)) for _ in paths]
    capacity = data.draw(st.integers(0, chains.n_ids + 1))

    curve = hit_ratio_curve(
        chains, block_weight=BLOCK_TOKENS, last_block_weights=np.array(last, dtype=np.int64)
    )

    saved = total = 0
    for path, depths, tokens in zip(paths, naive.request_depths(paths), last, strict=True):
        weights = [BLOCK_TOKENS] * (len(path) - 1) + [tokens] if path else []
        saved += sum(weights[: naive.leading_hits(depths, capacity)])
        total += sum(weights)
    assert curve.total_weight == total
    assert int(curve.hit_weight[min(capacity, chains.n_ids)]) == saved


@given(paths=prefix_forest_paths())
def test_a_bigger_tier_never_hits_less_and_an_endless_one_misses_first_sights_only(paths):
    """The curve rises from 0 to 1 - unique/accesses."""
    chains = chains_of_paths(paths)

    curve = hit_ratio_curve(chains)

    assert curve.hit_weight[0] == 0
    assert np.all(np.diff(curve.hit_weight) >= 0)
    assert curve.hit_weight[-1] == chains.accesses - chains.n_ids


def test_a_working_set_cycled_needs_all_its_room():
    """Five unrelated prompts of four blocks in turn: 16 blocks never hit, 19 lose every leaf, 20 hit all."""
    paths = [list(range(4 * (i % 5), 4 * (i % 5) + 4)) for i in range(20)]

    hits = hit_blocks_per_request(chains_of_paths(paths), np.array([16, 19, 20])).sum(axis=0)

    assert hits.tolist() == [0, 45, 60]


@given(paths=prefix_forest_paths(), salt=st.integers(0, 2**64 - 1))
def test_hashes_are_numbered_in_order_of_first_appearance(paths, salt):
    """Equal hashes get one number, distinct ones never share it, wherever chains branch and end."""
    hashes = [hash_of(block, salt) for path in paths for block in path]
    seen: dict[int, int] = {}
    expected = [seen.setdefault(value, len(seen)) for value in hashes]
    offsets = np.cumsum([0, *map(len, paths)])

    chains = numbered(np.array(hashes, dtype=np.uint64), offsets)

    assert chains.ids.tolist() == expected
    assert chains.n_ids == len(seen)
    assert chains.offsets.tolist() == offsets.tolist()


def hash_of(block: int, salt: int) -> int:
    """Small numbers that follow one another for some salts, any for others."""
    return block if salt % 3 == 0 else hash((block, salt)) % 2**64


def test_more_hashes_than_the_table_began_with_are_numbered_alike():
    """The table grows; chains that branch anywhere and counters that follow one another stay apart."""
    rng = np.random.default_rng(3)
    trunk = rng.integers(0, 2**64, 3000, dtype=np.uint64)
    chains = [
        np.append(trunk[: rng.integers(3000)], rng.integers(0, 2**64, rng.integers(4), dtype=np.uint64))
        for _ in range(1500)
    ] + [np.arange(5000, dtype=np.uint64) << np.uint64(9)]
    hashes, offsets = np.concatenate(chains), np.cumsum([0, *map(len, chains)])

    found = numbered(hashes, offsets)

    _, first = np.unique(hashes, return_index=True)
    assert found.n_ids == len(first)
    assert np.array_equal(hashes[np.sort(first)][found.ids], hashes)


@given(paths=prefix_forest_paths())
def test_ids_that_do_not_occur_change_nothing(paths):
    """A part of a trace may keep the ids of the whole."""
    chains = chains_of_paths(paths)
    sparse = Chains(chains.offsets, 3 * chains.ids, 3 * chains.n_ids + 7)

    curve, same = hit_ratio_curve(sparse), hit_ratio_curve(chains)

    assert curve.unique_blocks == same.unique_blocks == chains.n_ids
    assert np.array_equal(curve.hit_weight, same.hit_weight)


def test_what_cannot_be_computed_is_refused():
    """Weights of another length, and capacities below nothing, are named."""
    chains = chains_of_paths([[0, 1], [0]])

    with pytest.raises(BadInput, match="3 last-block weights"):
        hit_ratio_curve(chains, last_block_weights=np.ones(3, np.int64))
    with pytest.raises(BadInput, match="-1 blocks"):
        hit_ratio_curve(chains).at(np.array([-1]))
