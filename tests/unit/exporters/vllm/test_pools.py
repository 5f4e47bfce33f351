"""Blocks without an ancestor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm.pools import count_orphans

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

    blocks = {block: (0.0, parent) for block, parent in parents.items()}

    assert count_orphans(blocks) == sum(map(broken, parents))
