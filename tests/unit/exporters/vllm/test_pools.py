"""What comes before a block, and blocks without an ancestor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm.pools import Path, count_orphans, parents_of

families = st.dictionaries(st.integers(0, 12), st.none() | st.integers(0, 14), max_size=13)


@given(parents=families)
def test_orphans_are_the_blocks_whose_way_to_a_root_is_broken(parents):
    """Climbing from each block anew finds the same; a circle, which no engine makes, counts as sound."""

    def broken(block):
        seen = set()
        while block in parents and block not in seen:
            seen.add(block)
            if parents[block] is None:
                return False
            block = parents[block]
        return block not in parents

    assert count_orphans(parents) == sum(map(broken, parents))


def test_a_block_comes_after_the_one_before_it_on_the_path_it_is_of():
    """The first of a path after the path's parent; a later path with the same block says nothing of it."""
    whole, newer = Path(1.0, 9, (1, 2, 3)), Path(2.0, 2, (3, 4))
    blocks = {1: whole, 2: whole, 3: whole, 4: newer}

    assert parents_of(blocks) == {1: 9, 2: 1, 3: 2, 4: 3}
    assert {block: path.before(block) for block, path in blocks.items()} == parents_of(blocks)


def test_a_block_that_is_twice_on_a_path_comes_after_its_first_place():
    """No engine tells this; nothing may come before itself."""
    path = Path(1.0, None, (1, 1))

    assert parents_of({1: path}) == {1: None}
    assert path.before(1) is None


def test_blocks_without_order_have_none_before_them():
    """Caches of states or of sliding windows: each block is of use by itself."""
    path = Path(1.0, 9, (1, 2), chained=False)

    assert parents_of({1: path, 2: path}) == {1: None, 2: None}
    assert path.before(2) is None
