"""Chains survive their delta form, whatever the encoder forgot in between."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import ENGINES, chain_of
from tests.naive import whole_chain
from tierscope.storage.assembly import DeltaRows, assembled
from tierscope.storage.chains import ChainEncoder, Delta, Partition

HERE = Partition(472_222, ENGINES[0], "model")
NEXT_HOUR = Partition(472_223, ENGINES[0], "model")
OTHER_ENGINE = Partition(472_222, ENGINES[1], "model")
OTHER_MODEL = Partition(472_222, ENGINES[0], "adapter")
PARTITIONS = [HERE, NEXT_HOUR, OTHER_ENGINE, OTHER_MODEL]

paths = st.lists(st.integers(0, 2), max_size=12)


@dataclass(frozen=True)
class Step:
    """One row to encode, after forgetting everything where `forget` says so."""

    path: list[int]
    partition: Partition
    forget: bool


steps = st.lists(
    st.builds(Step, paths, st.sampled_from(PARTITIONS), st.sampled_from([False] * 9 + [True])),
    max_size=40,
)
encoders = st.builds(
    lambda most, per_partition: ChainEncoder(most_blocks=most, most_blocks_per_partition=per_partition),
    st.integers(1, 60),
    st.integers(1, 60),
)


def encode(encoder: ChainEncoder, told: list[Step]) -> dict[int, Delta]:
    deltas = {}
    for row_id, step in enumerate(told, start=100):
        if step.forget:
            encoder.forget()
        deltas[row_id] = encoder.encode(step.partition, row_id, chain_of(step.path))
    return deltas


def tuples(deltas: dict[int, Delta]) -> dict[int, tuple[int | None, int, tuple[int, ...]]]:
    return {row: (delta.parent_id, delta.common_blocks, delta.new_hashes) for row, delta in deltas.items()}


@given(told=steps, encoder=encoders)
def test_a_chain_comes_back_exactly(told, encoder):
    """Decoding gives the chain that was encoded, across restarts, full memories and partitions."""
    deltas = encode(encoder, told)

    assert [whole_chain(tuples(deltas), row) for row in deltas] == [chain_of(step.path) for step in told]


@given(told=steps, encoder=encoders)
def test_a_delta_stays_in_its_partition(told, encoder):
    """Dropping a whole hour of an engine, or a model's files of a day, never orphans a row."""
    deltas = encode(encoder, told)

    partitions = dict(zip(deltas, (step.partition for step in told), strict=True))
    parents = {row: delta.parent_id for row, delta in deltas.items() if delta.parent_id is not None}
    assert all(partitions[row] == partitions[parent] for row, parent in parents.items())


@given(told=steps, encoder=encoders)
def test_the_parent_introduced_the_last_common_block(told, encoder):
    """So each step of putting a chain together brings at least one block."""
    deltas = encode(encoder, told)

    for row, delta in deltas.items():
        if delta.parent_id is None:
            assert delta.common_blocks == 0
        else:
            parent = deltas[delta.parent_id]
            last_common = whole_chain(tuples(deltas), row)[delta.common_blocks - 1]
            assert last_common == parent.new_hashes[delta.common_blocks - 1 - parent.common_blocks]


@given(told=steps)
def test_nothing_known_is_written_twice(told):
    """With memory enough, a partition's blocks are each written once."""
    deltas = encode(ChainEncoder(), [Step(step.path, step.partition, forget=False) for step in told])

    for partition in PARTITIONS:
        written = [
            block
            for delta, step in zip(deltas.values(), told, strict=True)
            if step.partition == partition
            for block in delta.new_hashes
        ]
        assert len(written) == len(set(written))


@given(told=steps, encoder=encoders, data=st.data())
def test_the_kernel_agrees_with_following_parents(told, encoder, data):
    """Chains as arrays are what following parents row by row gives, for any rows in any order."""
    deltas = encode(encoder, told)
    rows = sorted(deltas)
    data.draw(st.randoms()).shuffle(rows)
    wanted = np.array(data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else [], dtype=np.int64)

    offsets, hashes = assembled(delta_rows(rows, deltas), wanted)

    chains = [tuple(hashes[start:end].tolist()) for start, end in pairwise(offsets)]
    assert chains == [whole_chain(tuples(deltas), rows[k]) for k in wanted]


def delta_rows(rows: list[int], deltas: dict[int, Delta]) -> DeltaRows:
    number = {row: n for n, row in enumerate(rows)}
    new = [deltas[row].new_hashes for row in rows]
    common = np.array([deltas[row].common_blocks for row in rows], dtype=np.int64)
    lengths = np.array([len(hashes) for hashes in new], dtype=np.int64)
    return DeltaRows(
        parent=np.array([number.get(deltas[row].parent_id, -1) for row in rows], dtype=np.int64),
        common=common,
        blocks=common + lengths,
        new_starts=np.cumsum(lengths) - lengths,
        new_hashes=np.array([block for hashes in new for block in hashes], dtype=np.uint64),
    )


def test_a_growing_session_is_written_once():
    """A conversation of three turns costs its blocks once, not once a turn."""
    encoder = ChainEncoder()

    deltas = [encoder.encode(HERE, turn, chain_of(range(4 * turn))) for turn in (1, 2, 3)]

    assert [len(delta.new_hashes) for delta in deltas] == [4, 4, 4]
    assert [delta.parent_id for delta in deltas] == [None, 1, 2]


def test_a_repeat_points_to_the_first_not_to_the_last():
    """However often a prompt is repeated, putting the last repeat together takes one step."""
    encoder = ChainEncoder()

    deltas = [encoder.encode(HERE, row, chain_of("abc")) for row in (1, 2, 3)]

    assert [delta.parent_id for delta in deltas] == [None, 1, 1]
    assert deltas[2] == Delta(1, 3, ())


@pytest.mark.parametrize("other", PARTITIONS[1:])
def test_another_partition_starts_whole(other):
    """The first use in a partition stores the whole chain."""
    encoder = ChainEncoder()
    encoder.encode(HERE, 1, chain_of("abc"))

    assert encoder.encode(other, 2, chain_of("abc")) == Delta(None, 0, chain_of("abc"))


def test_a_full_partition_starts_over():
    """What would not fit its memory is written whole, and known from then on."""
    encoder = ChainEncoder(most_blocks_per_partition=4)
    encoder.encode(HERE, 1, chain_of("abc"))

    assert encoder.encode(HERE, 2, chain_of("abcde")).common_blocks == 0
    assert encoder.encode(HERE, 3, chain_of("xy")).common_blocks == 0
    assert encoder.encode(HERE, 4, chain_of("xyz")) == Delta(3, 2, chain_of("xyz")[2:])


def test_the_partition_least_recently_used_is_forgotten_first():
    """A bounded memory keeps what is in use."""
    encoder = ChainEncoder(most_blocks=7)
    encoder.encode(HERE, 1, chain_of("abc"))
    encoder.encode(NEXT_HOUR, 2, chain_of("abc"))
    encoder.encode(HERE, 3, chain_of("abc"))
    encoder.encode(OTHER_ENGINE, 4, chain_of("abc"))

    assert encoder.encode(HERE, 5, chain_of("abc")).parent_id == 1
    assert encoder.encode(NEXT_HOUR, 6, chain_of("abc")).parent_id is None


def test_a_hash_at_another_place_is_not_the_same_prefix():
    """A hash that an engine repeats at another depth is written again, not pointed to."""
    encoder = ChainEncoder()
    encoder.encode(HERE, 1, (11, 12, 13))

    assert encoder.encode(HERE, 2, (13, 99)) == Delta(None, 0, (13, 99))
