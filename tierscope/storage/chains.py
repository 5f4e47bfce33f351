"""Block chains in delta form: encoded as rows come in, put together again as arrays.

A hash names its whole prefix, so a chain is known by how far it follows an earlier one. Its parent is
the row that INTRODUCED the last block they share, so putting a chain together takes as many steps as
rows introduced parts of it, however often those parts were repeated in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from tierscope.domain.identity import EngineId

Chain = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """What a delta never points out of: one hour (since 1970) of one engine and model.

    So it lies within one day and model, by which a lake keeps rows in files of their own.
    """

    hour: int
    engine: EngineId
    model: str


@dataclass(frozen=True, slots=True)
class Delta:
    """A chain as the first `common_blocks` of row `parent_id`'s chain, then `new_hashes`."""

    parent_id: int | None
    common_blocks: int
    new_hashes: Chain


@dataclass(frozen=True, slots=True)
class _Introduction:
    """A row that brought blocks in: `hashes` stand in its chain from position `first` on."""

    row_id: int
    first: int
    hashes: Chain


_Introductions = dict[int, _Introduction]


class ChainEncoder:
    """Finds each chain's delta, remembering which row introduced which block.

    Holds at most `most_blocks` hashes (about 100 bytes each), the least recently used partition
    leaving first, and at most `most_blocks_per_partition` of one partition. What was forgotten is
    written whole again: that costs disk, never truth. Not thread-safe.
    """

    def __init__(self, *, most_blocks: int = 2_000_000, most_blocks_per_partition: int = 1_000_000) -> None:
        self._most_blocks = most_blocks
        self._most_per_partition = min(most_blocks, most_blocks_per_partition)
        self._partitions: OrderedDict[Partition, _Introductions] = OrderedDict()
        self._blocks = 0

    def encode(self, partition: Partition, row_id: int, chain: Chain) -> Delta:
        """Return the delta of a row that is about to be written, and remember what it introduces.

        Takes O(blocks not shared with earlier rows) plus a logarithmic number of look-ups.
        """
        if not chain:
            return Delta(None, 0, ())
        known = self._partitions.setdefault(partition, {})
        self._partitions.move_to_end(partition)
        common = _common_blocks(known, chain)
        new = chain[common:]
        if len(known) + len(new) > self._most_per_partition:
            self._blocks -= len(known)
            known.clear()
            common, new = 0, chain
        parent_id = known[chain[common - 1]].row_id if common else None
        self._remember(known, _Introduction(row_id, common, new))
        return Delta(parent_id, common, new)

    def forget(self) -> None:
        """Drop all memory: the rows encoded last were not written, or someone else wrote since."""
        self._partitions.clear()
        self._blocks = 0

    def _remember(self, known: _Introductions, introduction: _Introduction) -> None:
        if len(introduction.hashes) > self._most_per_partition:
            return
        self._blocks -= len(known)
        known.update(dict.fromkeys(introduction.hashes, introduction))
        self._blocks += len(known)
        while self._blocks > self._most_blocks and len(self._partitions) > 1:
            _, dropped = self._partitions.popitem(last=False)
            self._blocks -= len(dropped)


def _common_blocks(known: _Introductions, chain: Sequence[int]) -> int:
    """How many leading blocks of `chain` are known: gallop back from the end, then bisect.

    Known blocks are closed under prefixes, so "block i is known" is true up to some i and false after.
    """
    first_unknown = len(chain)  # everything from here on is unknown
    step = 1
    while True:
        probe = first_unknown - step
        if probe < 0 or _is_known(known, chain, probe):
            break
        first_unknown = probe
        step *= 2
    low = max(probe, -1) + 1  # every block before `low` is known
    while low < first_unknown:
        middle = (low + first_unknown) // 2
        if _is_known(known, chain, middle):
            low = middle + 1
        else:
            first_unknown = middle
    return low


def _is_known(known: _Introductions, chain: Sequence[int], position: int) -> bool:
    introduction = known.get(chain[position])
    if introduction is None:
        return False
    # A hash that stood elsewhere in its chain does not name this prefix, whatever the engine says.
    offset = position - introduction.first
    return 0 <= offset < len(introduction.hashes) and introduction.hashes[offset] == chain[position]
