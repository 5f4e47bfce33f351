"""Hashes that stay packed read like the tuple of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.domain.hashes import PackedHashes, pack_hashes, packed

chains = st.lists(st.integers(0, 2**64 - 1), max_size=5).map(tuple)


@given(one=chains, other=chains)
def test_packed_hashes_are_as_good_as_a_tuple(one, other):
    """Equal to what is equal, on either side and as a key; as long, in the same order, and printed alike."""
    held = PackedHashes.of(pack_hashes(one))

    assert (
        (held == other) == (other == held) == (held == PackedHashes.of(pack_hashes(other))) == (one == other)
    )
    assert hash(held) == hash(one)
    assert (len(held), bool(held), tuple(held), repr(held)) == (len(one), bool(one), one, repr(one))
    assert [held[place] for place in range(-len(one), len(one))] == [*one, *one]
    assert packed(held) == packed(one)


def test_half_a_hash_is_refused():
    """Bytes that are no whole number of hashes came from nobody who packed them."""
    with pytest.raises(ValueError, match="multiple of 8"):
        PackedHashes.of(bytes(9))
