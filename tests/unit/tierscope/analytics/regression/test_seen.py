"""What was asked for before, against a slow twin that remembers every request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierscope.analytics.regression.seen import Reusable, SeenBlocks

paths = st.lists(st.integers(0, 2), min_size=1, max_size=5)
asked = st.lists(st.tuples(paths, st.integers(0, 2)), max_size=25)


def chain(path: list[int]) -> tuple[int, ...]:
    """A block names its whole prefix."""
    return tuple(hash(tuple(path[: depth + 1])) for depth in range(len(path)))


@given(requests=asked)
def test_reuse_is_told_by_engine_as_a_list_of_all_requests_would(requests):
    """Last here, last elsewhere, and never here."""
    seen, history = SeenBlocks(), []
    for path, engine in requests:
        blocks = chain(path)
        last = [next((who for known, who in reversed(history) if block in known), None) for block in blocks]
        ever = [{who for known, who in history if block in known} for block in blocks]
        expected = Reusable(
            sum(who == engine for who in last),
            sum(who is not None and who != engine for who in last),
            sum(bool(who) and engine not in who for who in ever),
        )

        assert seen.ask(blocks, engine) == expected
        history.append((set(blocks), engine))


def test_what_was_not_asked_for_longest_is_forgotten_leaf_first():
    """A bound on memory forgets whole tails, not roots."""
    seen = SeenBlocks(most_blocks=3)
    seen.ask([1, 2, 3], 0)
    seen.ask([9], 0)

    assert seen.ask([1, 2, 3], 0) == Reusable(2, 0, 0)
