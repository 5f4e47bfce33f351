"""Chains in delta form."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope_probe.hashes import DeltaEncoder, low_bytes

chains = st.lists(st.lists(st.integers(0, 2), max_size=12).map(tuple), max_size=30)


def hashes_of(path: tuple[int, ...]) -> list[bytes]:
    """A hash for each prefix: equal hash, equal whole prefix."""
    return [blake2b(repr(path[: end + 1]).encode(), digest_size=32).digest() for end in range(len(path))]


def resolve(sent: list[object]) -> list[list[bytes]]:
    """What a reader makes of the encoder's output; the naive reader keeps every prefix it saw."""
    known: dict[bytes, list[bytes]] = {}
    resolved = []
    for form in sent:
        whole = known[form["anchor"]][: form["from"]] + form["new"] if isinstance(form, dict) else form
        for position, block_hash in enumerate(whole):
            known[block_hash] = whole[: position + 1]
        resolved.append(whole)
    return resolved


@given(paths=chains)
def test_a_reader_gets_every_chain_back(paths):
    """Whatever chains share, each is resolved to its own hashes."""
    encoder = DeltaEncoder()
    whole = [[low_bytes(block_hash) for block_hash in hashes_of(path)] for path in paths]

    sent = [encoder.encode(hashes_of(path)) for path in paths]

    assert resolve(sent) == whole


@given(paths=chains)
def test_no_hash_is_sent_twice_in_an_epoch(paths):
    """What a reader can know already is not said again, except as an anchor."""
    encoder = DeltaEncoder()

    sent = [encoder.encode(hashes_of(path)) for path in paths]

    new = [block_hash for form in sent for block_hash in (form["new"] if isinstance(form, dict) else form)]
    assert len(new) == len(set(new))


def test_a_new_epoch_points_at_nothing_before_it():
    """After a reset the same chain is whole again."""
    encoder = DeltaEncoder()
    whole = encoder.encode(hashes_of((1, 2)))

    encoder.reset()

    assert encoder.encode(hashes_of((1, 2))) == whole


def test_an_encoder_says_when_its_epoch_is_large():
    """Memory is bounded by whoever starts the next epoch."""
    encoder = DeltaEncoder(most_hashes=2)
    assert not encoder.full

    encoder.encode(hashes_of((1, 2)))

    assert encoder.full


def test_hashes_of_any_release_become_the_events_integers():
    """Digests are cut to the last 8 bytes, integers to 64 bits; all else is refused by its type."""
    assert low_bytes(bytes(range(32))) == bytes(range(24, 32))
    assert low_bytes((7 << 64) | 5) == (5).to_bytes(8, "big")
    with pytest.raises(TypeError, match="type str"):
        low_bytes("abc")
