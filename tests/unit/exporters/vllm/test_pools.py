"""What comes before a block, and blocks without an ancestor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm.pools import Path, count_orphans

numbers = st.integers(0, 9)
paths = st.builds(
    Path,
    st.just(1.0),
    st.none() | numbers,
    st.lists(numbers, min_size=1, max_size=5).map(tuple),
    st.booleans(),
)


@given(told=st.lists(paths, max_size=8), gone=st.sets(numbers))
def test_orphans_are_the_blocks_whose_way_to_a_root_is_broken(told, gone):
    """Climbing from each block anew finds the same; a circle, which no engine makes, counts as sound."""
    blocks = {}
    for path in told:
        blocks = dict.fromkeys(path.block_hashes, path) | blocks
    blocks = {block: path for block, path in blocks.items() if block not in gone}

    def broken(block):
        seen = set()
        while block in blocks and block not in seen:
            seen.add(block)
            before = blocks[block].before(block)
            if before is None:
                return False
            block = before
        return block not in blocks

    assert count_orphans(blocks) == sum(map(broken, blocks))


def test_a_block_comes_after_the_one_before_it_on_its_path():
    """The first one after the path's parent; one that is there twice after its first place."""
    path = Path(1.0, 9, (1, 2, 2))

    assert [path.before(block) for block in (1, 2)] == [9, 1]


def test_blocks_without_order_have_none_before_them():
    """Caches of states or of sliding windows: each block is of use by itself."""
    path = Path(1.0, 9, (1, 2), chained=False)

    assert [path.before(block) for block in (1, 2)] == [None, None]
