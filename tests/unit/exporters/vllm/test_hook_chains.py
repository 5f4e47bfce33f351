"""Chains sent as what is new are found again whole, or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm.hook import HashDelta
from exporters.vllm.hook_chains import ChainMemory
from tierscope.domain.units import block_hash_of_bytes


def test_a_delta_continues_the_chain_its_anchor_ends():
    """The anchor names its whole prefix, wherever it was seen."""
    memory = ChainMemory()
    memory.resolve([1, 2, 3, 4])

    assert memory.resolve(HashDelta(start=2, anchor=2, new=[5, 6])) == (1, 2, 5, 6)
    assert memory.resolve(HashDelta(start=3, anchor=5, new=[7])) == (1, 2, 5, 7)


def test_digests_and_numbers_name_the_same_blocks():
    """A hook may send the last eight bytes, the whole digest or the number."""
    memory = ChainMemory()
    digest = bytes(range(32))
    memory.resolve([digest])

    assert memory.resolve(HashDelta(start=1, anchor=digest[-8:], new=[9])) == (block_hash_of_bytes(digest), 9)


def test_an_unknown_anchor_gives_no_chain():
    """A chain is whole or absent; a wrong one would be worse than none."""
    memory = ChainMemory()
    memory.resolve([1, 2, 3])

    assert memory.resolve(HashDelta(start=2, anchor=9, new=[5])) is None
    assert memory.resolve(HashDelta(start=1, anchor=3, new=[5])) is None, "the anchor is elsewhere"
    assert memory.resolve(HashDelta(start=4, anchor=3, new=[5])) is None, "the chain is shorter"
    assert memory.resolve(HashDelta(start=2, anchor=None, new=[5])) is None


def test_a_delta_from_the_root_needs_no_anchor():
    """The first chain of a hook that always sends deltas."""
    assert ChainMemory().resolve(HashDelta(start=0, new=[1, 2])) == (1, 2)


def test_no_chain_is_an_empty_chain():
    """A prompt shorter than a block has none."""
    assert ChainMemory().resolve(None) == ()
    assert ChainMemory().resolve([]) == ()


def test_a_new_life_of_the_engine_knows_nothing():
    """After a restart the hook begins anew with whole chains."""
    memory = ChainMemory()
    memory.resolve([1, 2])
    memory.forget()

    assert memory.resolve(HashDelta(start=2, anchor=2, new=[3])) is None


def test_memory_is_bounded_and_keeps_what_is_in_use():
    """A prefix that is used again and again stays, while a flood of other chains passes."""
    memory = ChainMemory(most_blocks=200)
    memory.resolve(list(range(10)))

    for i in range(500):
        memory.resolve([1000 + 10 * i + j for j in range(10)])
        assert memory.resolve(HashDelta(start=10, anchor=9, new=[])) == tuple(range(10))
    assert memory.resolve(HashDelta(start=10, anchor=1009, new=[])) is None


forests = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(1, 4)), max_size=20)


@given(forest=forests)
def test_any_delta_of_a_known_chain_gives_the_whole_chain(forest):
    """Chains that branch anywhere, each sent as what lies beyond some known prefix of it."""
    memory = ChainMemory()
    chains = [()]
    fresh = iter(range(1, 1000))
    for index, most_kept, added in forest:
        base = chains[index % len(chains)]
        kept = min(most_kept, len(base))
        chain = (*base[:kept], *(next(fresh) for _ in range(added)))
        delta = HashDelta(start=kept, anchor=chain[kept - 1] if kept else None, new=list(chain[kept:]))
        chains.append(chain)

        assert memory.resolve(delta) == chain
