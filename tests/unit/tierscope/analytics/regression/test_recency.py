"""How long ago a block was asked for, against a slow twin that counts the blocks asked for since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierscope.analytics.regression.recency import Recencies, Recency, Section

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
    recency, history = Recency(), []
    for number, path in enumerate(requests):
        blocks = chain(path)
        sections = recency.sections(blocks)

        assert distances(sections) == slow_distances(history, blocks)
        recency.touch(blocks, number)
        history.append(blocks)


@given(requests=st.lists(paths, max_size=40), most=st.integers(1, 6))
def test_requests_of_long_ago_are_no_longer_told_apart(requests, most):
    """What is known of the path stays known, and nothing seems further away than it is."""
    recency, history = Recency(most), []
    for number, path in enumerate(requests):
        blocks = chain(path)
        found, exact = distances(recency.sections(blocks)), slow_distances(history, blocks)

        assert len(found) == len(exact)
        assert all(near <= far for near, far in zip(found, exact, strict=True))
        recency.touch(blocks, number)
        history.append(blocks)


@given(
    requests=st.lists(st.tuples(st.sampled_from("abc"), paths), max_size=40),
    most_blocks=st.integers(1, 12),
)
def test_several_share_a_bound_and_what_nobody_asked_for_longest_is_forgotten(requests, most_blocks):
    """In whichever it is, its leaf first; so all are bounded together, and none by itself."""
    several: Recencies = Recencies(most_blocks)
    lately: dict[tuple[str, int], None] = {}
    for key, path in requests:
        blocks = chain(path)
        assert sum(part.blocks for part in several.sections(key, blocks)) == sum(
            (key, block) in lately for block in blocks
        )
        several.touch(key, blocks)
        for block in reversed(blocks):
            lately.pop((key, block), None)
            lately[key, block] = None
        while len(lately) > most_blocks:
            del lately[next(iter(lately))]
        assert len(several) == len(lately)


class Passes(dict):
    """Blocks that tell how often they were begun to be passed over."""

    begun = 0

    def __iter__(self):
        Passes.begun += 1
        return super().__iter__()

    def values(self):
        Passes.begun += 1
        return super().values()

    def items(self):
        Passes.begun += 1
        return super().items()


def test_many_are_forgotten_by_passing_over_each_part_once(monkeypatch):
    """What is gone leaves gaps, and every pass goes over them: one for each request would never end."""
    several, asked = Recencies(64 * 40), 0

    def ask() -> None:
        nonlocal asked
        several.touch("ab"[asked % 2], [asked, -asked - 1])
        asked += 1

    while len(several) < 64 * 40:
        ask()
    for part in several._of.values():
        part._touched = Passes(part._touched)
    monkeypatch.setattr(Passes, "begun", 0)
    ask()

    assert len(several) == 63 * 40
    assert Passes.begun == 2  # one of each part
    assert not several.sections("a", [20])
    assert several.sections("a", [22])


def test_what_is_forgotten_is_no_longer_between():
    """Distances count what is still known."""
    several = Recencies(4)
    several.touch("a", [1, 2, 3])
    several.touch("a", [9])
    several.touch("b", [5])

    assert several.sections("a", [1, 2, 3]) == [Section(1, 2)]
    assert several.sections("b", [5]) == [Section(0, 1)]
