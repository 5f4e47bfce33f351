"""How long ago a block was asked for, against a slow twin that counts the blocks asked for since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierscope.analytics.regression.recency import Recency, Section

paths = st.lists(st.integers(0, 2), min_size=1, max_size=5)


def chain(path: list[int]) -> tuple[int, ...]:
    """A block names its whole prefix."""
    return tuple(hash(tuple(path[: depth + 1])) for depth in range(len(path)))


def distances(sections: list[Section]) -> list[int]:
    return [part.distance_blocks for part in sections for _ in range(part.blocks)]


def slow_distances(history: list[tuple[int, ...]], blocks: tuple[int, ...]) -> list[int]:
    """Distinct blocks of the requests after the last one that asked for each; up to the first unknown."""
    found = []
    for block in blocks:
        last = max((number for number, asked in enumerate(history) if block in asked), default=None)
        if last is None:
            break
        found.append(len({one for asked in history[last + 1 :] for one in asked}))
    return found


@given(requests=st.lists(paths, max_size=30))
def test_distances_are_what_counting_them_gives(requests):
    """One section a request that touched part of the path last."""
    recency, history = Recency(10_000), []
    for path in requests:
        blocks = chain(path)
        sections = recency.sections(blocks)

        assert distances(sections) == slow_distances(history, blocks)
        recency.touch(blocks)
        history.append(blocks)


@given(requests=st.lists(paths, max_size=40), most=st.integers(1, 6))
def test_requests_of_long_ago_are_no_longer_told_apart(requests, most):
    """What is known of the path stays known, and nothing seems further away than it is."""
    recency, history = Recency(10_000, most_requests=most), []
    for path in requests:
        blocks = chain(path)
        found, exact = distances(recency.sections(blocks)), slow_distances(history, blocks)

        assert len(found) == len(exact)
        assert all(near <= far for near, far in zip(found, exact, strict=True))
        recency.touch(blocks)
        history.append(blocks)


def test_what_was_not_asked_for_longest_is_forgotten_leaf_first():
    """A bound on memory forgets whole tails, not roots."""
    recency = Recency(3)
    recency.touch([1, 2, 3])
    recency.touch([9])

    assert recency.sections([1, 2, 3]) == [Section(1, 2)]
    assert len(recency) == 3
