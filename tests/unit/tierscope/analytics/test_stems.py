"""Stems: where chains part, and that chains put together from them are those that came in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import prefix_forest_paths
from tierscope.analytics import stems as parting
from tierscope.analytics.stems import Stems, stems_of
from tierscope.domain.errors import BadInput


def found_in(paths: list[list[int]]) -> Stems:
    hashes = np.array([block + 1 for path in paths for block in path], dtype=np.uint64)
    return stems_of(hashes, np.cumsum([0, *map(len, paths)]))


def ends_on_the_way(stems: Stems, request: int) -> list[int]:
    """Where the stems of a request's chain end, the root's first."""
    ends, stem = [], int(stems.last[request])
    while stem >= 0:
        ends.append(int(stems.end[stem]))
        stem = int(stems.parent[stem])
    return ends[::-1]


def parting_places(paths: list[list[int]], request: int) -> list[int]:
    """The textbook: where another chain leaves this one or ends, and where this one ends."""
    mine, places = paths[request], set()
    for other in paths:
        common = next((i for i, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b), None)
        places.add(min(len(mine), len(other)) if common is None else common)
    return sorted(places - {0})


@given(paths=prefix_forest_paths())
def test_stems_end_where_chains_part_or_end_and_nowhere_else(paths):
    """Of every request, whether those it parts from came before or after it."""
    stems = found_in(paths)

    for request in range(len(paths)):
        assert ends_on_the_way(stems, request) == parting_places(paths, request)


@given(paths=prefix_forest_paths())
def test_there_are_at_most_two_stems_a_request(paths):
    """Each chain adds an end, and a place at which it leaves another."""
    assert len(found_in(paths).end) <= 2 * len(paths)


@given(paths=prefix_forest_paths(), per_chunk=st.integers(1, 4))
def test_in_chunks_a_chain_is_as_long_as_whole_chunks_of_it(paths, per_chunk):
    """Stems without a whole chunk of their own stay, empty."""
    stems = found_in(paths).in_chunks(per_chunk)

    for request, path in enumerate(paths):
        ends = ends_on_the_way(stems, request)
        assert ends == sorted(ends)
        assert ([0, *ends])[-1] == len(path) // per_chunk


def test_more_blocks_than_can_be_counted_are_refused(monkeypatch):
    """What is distinct is counted, not what is asked for: asking again is nothing new."""
    monkeypatch.setattr(parting, "MOST_BLOCKS", 5)
    part = getattr(parting._part, "py_func", parting._part)
    monkeypatch.setattr(parting, "_part", part)

    assert len(found_in([[1, 2, 3], [1, 2, 3], [4, 5]]).end) == 2
    with pytest.raises(BadInput, match="more than 5 distinct blocks"):
        found_in([[1, 2, 3], [4, 5], [6]])
