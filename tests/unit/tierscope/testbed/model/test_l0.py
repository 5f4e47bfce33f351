"""The block pool against an obvious one, and the order in which vLLM gives blocks away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierscope.testbed.model.l0 import BlockPool, Removed, Stored


class NaivePool:
    """Blocks in a list, searched from front to back for everything."""

    def __init__(self, blocks):
        self.hash = [None] * blocks
        self.users = [0] * blocks
        self.free = list(range(blocks))
        self.cached_at: list[int] = []

    def leading(self, hashes, most):
        count = 0
        for value in hashes[:most]:
            if value not in self.hash:
                break
            count += 1
        return count

    def take(self, hashes, hit, new):
        first_holder = {self.hash[block]: block for block in reversed(self.cached_at)}
        blocks = [first_holder[value] for value in hashes[:hit]]
        if len([block for block in self.free if block not in blocks]) < new:
            return None
        for block in blocks:
            self.users[block] += 1
            if block in self.free:
                self.free.remove(block)
        for _ in range(new):
            block = self.free.pop(0)
            if block in self.cached_at:
                self.cached_at.remove(block)
            self.hash[block] = None
            self.users[block] = 1
            blocks.append(block)
        return blocks

    def seal(self, blocks, hashes):
        for block, value in zip(blocks, hashes, strict=True):
            self.hash[block] = value
            self.cached_at.append(block)

    def release(self, blocks):
        for block in reversed(blocks):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.free.append(block)


operations = st.lists(
    st.tuples(
        st.sampled_from(["take", "release"]), st.integers(0, 5), st.lists(st.integers(0, 2), max_size=4)
    ),
    max_size=40,
)


@given(st.integers(1, 10), operations)
def test_the_pool_gives_the_same_blocks_as_an_obvious_one(size, steps):
    """Hits, blocks handed out and blocks refused agree with a pool that searches lists."""
    pool, naive, held = BlockPool(size), NaivePool(size), []
    for what, extra, path in steps:
        if what == "release":
            if held:
                blocks = held.pop(extra % len(held))
                pool.release(blocks)
                naive.release(blocks)
            continue
        hashes = [hash(tuple(path[: end + 1])) & 0xFFFF for end in range(len(path))]
        hit = pool.leading(hashes, len(hashes))
        assert hit == naive.leading(hashes, len(hashes))
        taken = pool.take(hashes, hit, len(hashes) - hit + extra)
        assert taken == naive.take(hashes, hit, len(hashes) - hit + extra)
        if taken is not None:
            held.append(taken)
            parent = hashes[hit - 1] if hit else None
            pool.seal(taken[hit : len(hashes)], hashes[hit:], parent)
            naive.seal(taken[hit : len(hashes)], hashes[hit:])
        assert pool.cached_blocks == len(naive.cached_at)
        assert pool.free_blocks == len(naive.free)


def test_a_request_loses_its_tail_first():
    """Freed blocks are given away last block first, so a prefix outlives its continuation."""
    pool = BlockPool(3)
    pool.seal(blocks := pool.take((), 0, 3), [1, 2, 3], None)
    pool.release(blocks)
    pool.changes.clear()

    pool.take((), 0, 2)

    assert pool.changes == [Removed([3, 2])]
    assert pool.leading([1, 2, 3], 3) == 1


def test_a_pinned_block_is_never_given_away():
    """Blocks in use are no room."""
    pool = BlockPool(2)
    pool.seal(pool.take((), 0, 1), [1], None)

    assert pool.take((), 0, 2) is None
    assert pool.take((), 0, 1) is not None
    assert pool.leading([1], 1) == 1


def test_the_same_content_twice_is_stored_twice_and_removed_twice():
    """Two blocks with one hash are two residents: the content is there until both are gone."""
    pool = BlockPool(2)
    first, second = pool.take((), 0, 1), pool.take((), 0, 1)
    pool.seal(first, [5], None)
    pool.seal(second, [5], None)
    pool.release(first)
    pool.take((), 0, 1)
    there = pool.leading([5], 1)
    pool.release(second)
    pool.take((), 0, 1)

    assert there == 1
    assert pool.leading([5], 1) == 0
    assert pool.changes == [Stored(None, [5]), Stored(None, [5]), Removed([5]), Removed([5])]
