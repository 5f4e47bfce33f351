"""Dense ids, and the check that they form a prefix forest."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import naive
from tests.strategies import prefix_forest_paths
from tierscope.traces.forest import dense, other_parents

any_paths = st.lists(st.lists(st.integers(0, 5), max_size=5), max_size=8)


def found_in(paths: list[list[int]]) -> list[int | None]:
    """Places within each path, as the naive twin gives them."""
    offsets = np.cumsum([0, *map(len, paths)], dtype=np.int64)
    ids = np.array([block for path in paths for block in path], dtype=np.int32)
    places = other_parents(offsets, ids, 6, np.zeros(len(paths), dtype=np.bool_))
    return [
        int(place - start) if place >= 0 else None for place, start in zip(places, offsets[:-1], strict=True)
    ]


@given(paths=any_paths)
def test_a_second_parent_is_found_where_the_twin_finds_it(paths):
    """Paths of any blocks: repeats, cycles and crossings are all second parents."""
    assert found_in(paths) == naive.second_parents(paths)


@given(paths=prefix_forest_paths())
def test_a_prefix_forest_has_none(paths):
    """Every path that follows an earlier one for a while passes."""
    assert naive.second_parents(paths) == [None] * len(paths)


@given(ids=st.lists(st.integers(0, 40) | st.integers(-(2**63), 2**63 - 1), max_size=60))
def test_dense_ids_keep_equality_and_order(ids):
    """Small ids and ids that could be hashes are numbered alike."""
    numbers, n_ids = dense(np.array(ids, dtype=np.int64))

    distinct = sorted(set(ids))
    assert n_ids == len(distinct)
    assert numbers.tolist() == [distinct.index(block) for block in ids]
    assert numbers.dtype == np.int32
