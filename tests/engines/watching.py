"""What an engine's KV events say, counted from its own replay without any of our readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import zmq

END = b"\xff" * 8
ANSWER_MILLISECONDS = 60_000


@dataclass
class Copies:
    """Blocks of one rank by hash: an engine may hold one block in several copies."""

    batches: int = 0
    stored: int = 0
    removed: int = 0
    peak: int = 0
    lowest: int = 0
    """The fewest copies any hash was counted at; below 0 something left that never came."""
    held: Counter[object] = field(default_factory=Counter)

    @property
    def resident(self) -> int:
        """Copies there are now."""
        return self.stored - self.removed

    @property
    def distinct(self) -> int:
        """Blocks there are now, however many copies of each."""
        return sum(count > 0 for count in self.held.values())

    def store(self, hashes: list[object]) -> None:
        """Count one copy more of each."""
        self.stored += len(hashes)
        self.held.update(hashes)
        self.peak = max(self.peak, self.resident)

    def remove(self, hashes: list[object]) -> None:
        """Count one copy less of each."""
        self.removed += len(hashes)
        self.held.subtract(hashes)
        self.lowest = min([self.lowest, *(self.held[block_hash] for block_hash in hashes)])


def replayed_copies(replay_endpoint: str) -> Copies:
    """Ask an engine for all events of its life, and count them."""
    copies = Copies()
    for payload in _replayed(replay_endpoint):
        copies.batches += 1
        _, events, _ = msgspec.msgpack.decode(payload)
        for event in events:
            if event["type"] == "BlockStored":
                copies.store(event["block_hashes"])
            else:
                assert event["type"] == "BlockRemoved", event
                copies.remove(event["block_hashes"])
    return copies


def _replayed(endpoint: str) -> Iterator[bytes]:
    """Yield every payload in order. Answers that a full queue dropped are asked for again."""
    wanted = 0
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.connect(endpoint)
        while True:
            began = wanted
            for sequence, payload in _answers(dealer, wanted):
                if sequence == wanted:
                    yield payload
                    wanted += 1
            if wanted == began:
                return


def _answers(dealer: zmq.Socket[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    dealer.send_multipart([b"", start.to_bytes(8, "big")])
    while True:
        assert dealer.poll(ANSWER_MILLISECONDS), "the engine does not replay its events"
        *_, sequence, payload = dealer.recv_multipart()
        if sequence == END:
            return
        yield int.from_bytes(sequence, "big"), payload
