"""What LMCache inside an engine tells its controller: chunks that came into a worker's storages and left.

Each worker has a part of every chunk and tells for itself: a chunk comes into a tier with the first worker's
part and leaves with the last one's. A departure has no reason: room was needed, or someone cleared. Only
memory and a worker's own disk are told; what goes to a remote storage is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from exporters.lmcache.unseen import Unseen
from exporters.oddities import Oddity
from exporters.streams import StreamReading
from exporters.vllm.events import tier_of_medium
from exporters.wire import UNREADABLE, undecodable
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.tiers import Tier
from tierscope.domain.units import BLOCK_HASH_MASK


class Operation(msgspec.Struct):
    """One chunk came (`admit`) or left (`evict`)."""

    op_type: str
    key: int
    seq_num: int = 0


class _Message(msgspec.Struct, tag_field="type"):
    """What a worker says; fields that nothing here needs are skipped."""

    instance_id: str = ""
    worker_id: int = 0


class Register(_Message, tag="RegisterMsg"):
    """A worker began, and waits for an answer."""


class Deregister(_Message, tag="DeRegisterMsg"):
    """A worker ends."""


class Operations(_Message, tag="BatchedKVOperationMsg"):
    """What happened in one storage of a worker."""

    location: str = ""
    operations: list[Operation] = []


class PeerLookup(_Message, tag="BatchedP2PLookupMsg"):
    """A worker asks who else has chunks, and waits for an answer."""


Message = Register | Deregister | Operations | PeerLookup
_decode_one = msgspec.msgpack.Decoder(Message).decode
_decode_all = msgspec.msgpack.Decoder(list[Message]).decode


def decode_messages(payload: bytes, *, where: str) -> list[Message]:
    """Read one payload, a message or a list of them; raises `BadInput`."""
    try:
        return [_decode_one(payload)]
    except UNREADABLE as one:
        try:
            return _decode_all(payload)
        except UNREADABLE:
            raise undecodable(payload, one, where) from one


def answer_to(message: Message) -> bytes:
    """What a controller says to a worker that waits: welcome, or that nobody else has its chunks."""
    if isinstance(message, PeerLookup):
        return msgspec.msgpack.encode({"type": "BatchedP2PLookupRetMsg", "layout_info": [("", "", 0, "")]})
    return msgspec.msgpack.encode({"type": "RegisterRetMsg", "extra_config": {}})


@dataclass(slots=True)
class _Worker:
    """What one worker said so far."""

    next_sequences: dict[str, int] = field(default_factory=dict)
    """By storage: each numbers what happens in it."""
    parts: dict[tuple[str, int], Tier] = field(default_factory=dict)
    """Chunks it has, by storage."""


@dataclass(slots=True)
class Controller:
    """Turns the messages of one engine's workers into what came into its L1 and left it. Used by one thread.

    `holder` is the LMCache's name; `chunk_tokens` the size of a chunk, 0 where it is not known.
    """

    holder: str
    where: str
    chunk_tokens: int = 0
    stale: bool = False
    _workers: dict[int, _Worker] = field(default_factory=dict)
    _copies: Counter[tuple[Tier, int]] = field(default_factory=Counter)
    _unseen: Unseen[tuple[Tier, int]] = field(default_factory=Unseen)

    def message(self, message: Message, at_unix_seconds: float) -> StreamReading:
        """Take one message, at the time it came. Its records are its operations, which are numbered."""
        reading = StreamReading()
        worker = self._workers.setdefault(message.worker_id, _Worker())
        match message:
            case Register() | Deregister():
                reading.entries += self._gone(worker, at_unix_seconds)
                worker.next_sequences.clear()
            case Operations():
                reading.records = len(message.operations)
                self._operations(message, worker, at_unix_seconds, reading)
        return reading

    def resident(self, tier: Tier) -> int:
        """Chunks that a tier has now, of those that were told."""
        return sum(held is tier for held, _ in self._copies)

    def _operations(
        self, message: Operations, worker: _Worker, at_unix_seconds: float, reading: StreamReading
    ) -> None:
        tier = tier_of_medium(message.location)
        if tier is None:
            reading.oddities.append(self._unknown(message))
            return
        came: list[int] = []
        left: list[int] = []
        if self._began_anew(worker, message):
            reading.entries += self._gone(worker, at_unix_seconds)
        for operation in message.operations:
            missed = self._missed(worker, message.location, operation.seq_num)
            reading.missing += missed
            self.stale |= bool(missed)
            chunk = operation.key & BLOCK_HASH_MASK
            place = message.location, chunk
            if operation.op_type == "admit":
                if place not in worker.parts:
                    worker.parts[place] = tier
                    self._copies[tier, chunk] += 1
                    self._unseen.came((tier, chunk))
                    if self._copies[tier, chunk] == 1:
                        came.append(chunk)
            elif self._left(tier, chunk, known=worker.parts.pop(place, None) is not None):
                left.append(chunk)
        reading.entries += self._events(tier, came, left, message.operations, at_unix_seconds)

    def _began_anew(self, worker: _Worker, message: Operations) -> bool:
        """Whether a worker counts from the start again, and nobody said that it had restarted."""
        expected = worker.next_sequences.get(message.location)
        if expected is None or not message.operations or message.operations[0].seq_num >= expected:
            return False
        worker.next_sequences.clear()
        return True

    def _missed(self, worker: _Worker, location: str, sequence: int) -> int:
        """How many operations are newly known to be lost. Who comes late lost what was before."""
        expected = worker.next_sequences.get(location, 0)
        worker.next_sequences[location] = sequence + 1
        return max(0, sequence - expected)

    def _left(self, tier: Tier, chunk: int, *, known: bool) -> bool:
        """A worker's part of a chunk left; whether the chunk did.

        Where what came was lost, a part that was never seen to come was there all the same.
        """
        if known and not self._dropped(tier, chunk):
            return False
        if not self.stale:
            return known
        return (tier, chunk) not in self._copies and self._unseen.left((tier, chunk))

    def _dropped(self, tier: Tier, chunk: int) -> bool:
        """Take one part of a chunk away; whether it was the last."""
        self._copies[tier, chunk] -= 1
        if self._copies[tier, chunk] > 0:
            return False
        del self._copies[tier, chunk]
        return True

    def _gone(self, worker: _Worker, at_unix_seconds: float) -> Iterator[BlockEvent]:
        """A worker's memory is gone with its process."""
        for tier in Tier:
            parts = [chunk for (_, chunk), held in worker.parts.items() if held is tier]
            gone = [chunk for chunk in parts if self._dropped(tier, chunk)]
            if gone:
                yield self._event(tier, gone, at_unix_seconds, EvictionReason.RESTART)
        worker.parts.clear()

    def _events(
        self,
        tier: Tier,
        came: list[int],
        left: list[int],
        operations: list[Operation],
        at_unix_seconds: float,
    ) -> Iterator[BlockEvent]:
        sequence = operations[0].seq_num if operations else None
        if came:
            yield self._event(tier, came, at_unix_seconds, None, sequence)
        if left:
            yield self._event(tier, left, at_unix_seconds, EvictionReason.UNKNOWN, sequence, 1)

    def _event(
        self,
        tier: Tier,
        chunks: list[int],
        at_unix_seconds: float,
        reason: EvictionReason | None,
        sequence: int | None = None,
        ordinal: int = 0,
    ) -> BlockEvent:
        return BlockEvent(
            tier=tier,
            holder=self.holder,
            action=BlockAction.STORED if reason is None else BlockAction.EVICTED,
            block_hashes=tuple(chunks),
            at_unix_seconds=at_unix_seconds,
            block_tokens=self.chunk_tokens,
            reason=reason,
            sequence=sequence,
            ordinal=ordinal,
        )

    def _unknown(self, message: Operations) -> Oddity:
        error = BadInput(
            f"{len(message.operations)} chunks are in {message.location[:40]!r}, whose tier is not known",
            where=self.where,
            fix="these chunks are in no tier's numbers; report the storage",
        )
        return Oddity(f"medium {message.location[:40]}", error, len(message.operations))
