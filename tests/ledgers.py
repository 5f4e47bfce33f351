"""A made-up ledger: what exporters of a small deployment would publish, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EngineTokens,
    EvictionReason,
    LedgerEntry,
    SourceCoverage,
    TierActivity,
    TierSample,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.requests import NO_TOKENS, ExternalReason, RequestRecord, RequestStatus, TokenSplit
from tierscope.domain.tiers import Tier

START = 1_700_000_000.0
BLOCK_TOKENS = 16
ENGINES = tuple(EngineId("prod", "chat", f"chat-{n}", 0) for n in range(2))


def chain_of(path: Iterable[object]) -> tuple[int, ...]:
    """Block hashes of a path of tokens: each names its whole prefix, as an engine's hashes do."""
    digest, chain = b"", []
    for step in path:
        digest = blake2b(digest + repr(step).encode(), digest_size=8).digest()
        chain.append(int.from_bytes(digest, "big"))
    return tuple(chain)


def split_of(prompt: int, *shares: int) -> TokenSplit:
    """A split with these l0, l1, l2, external tokens as far as the prompt goes; the rest is computed."""
    parts: list[int] = []
    for share in (*shares, 0, 0, 0, 0)[:4]:
        parts.append(min(share, prompt - sum(parts)))
    return TokenSplit(prompt, *parts, prompt - sum(parts))


def admission(
    path: Sequence[object] = (),
    *,
    name: str = "request",
    at: float = START,
    engine: EngineId = ENGINES[0],
    shares: Sequence[int] = (),
    status: RequestStatus = RequestStatus.SERVED,
    model: str = "model",
    block_tokens: int = BLOCK_TOKENS,
    session: int | None = None,
    chunk_tokens: int | None = 256,
) -> RequestRecord:
    """One admission whose prompt is `path`, one block a step, and five tokens more."""
    tokens = split_of(len(path) * block_tokens + 5, *shares)
    return RequestRecord(
        engine=engine,
        model=model,
        request_id=name,
        attempt=int(status is RequestStatus.READMITTED),
        status=status,
        tokens=tokens,
        block_tokens=block_tokens,
        block_hashes=chain_of(path),
        arrived_unix_seconds=at - 0.25,
        admitted_unix_seconds=at,
        chunk_tokens=chunk_tokens,
        external_reason=ExternalReason.NOT_REPORTED if tokens.external else None,
        queue_seconds=0.25,
        ttft_seconds=None if status is RequestStatus.ABORTED else 0.5,
        session_hash=session,
    )


def batch(
    sequence: int,
    *entries: LedgerEntry,
    exporter: str = "node-1",
    incarnation: int = 7,
    at: float | None = None,
) -> FeedBatch:
    """One batch of a feed; published one second after the one before unless told otherwise."""
    published = START + sequence if at is None else at
    return FeedBatch(FeedPosition(exporter, incarnation, sequence), published, entries)


class Ledger:
    """Sessions whose prompts grow turn by turn and sometimes branch, and everything else exporters say."""

    def __init__(self, seed: int = 1, *, exporter: str = "node-1", incarnation: int = 7) -> None:
        self._rng = random.Random(seed)
        self._exporter = exporter
        self._incarnation = incarnation
        self._sessions = [[f"{exporter}-{seed}-session-{n}"] for n in range(6)]

    def batches(self, count: int, *, step_seconds: float = 60.0) -> list[FeedBatch]:
        """The first `count` batches, one every `step_seconds`."""
        return [
            batch(
                sequence,
                *self._entries(sequence, START + sequence * step_seconds),
                exporter=self._exporter,
                incarnation=self._incarnation,
                at=START + sequence * step_seconds,
            )
            for sequence in range(count)
        ]

    def _entries(self, sequence: int, at: float) -> Iterator[LedgerEntry]:
        for n in range(self._rng.randrange(4)):
            yield self._admission(f"{self._exporter}-{sequence}-{n}", at + n)
        if self._rng.random() < 0.5:
            yield self._event(at)
        if sequence % 5 == 0:
            yield from self._readings(at)

    def _admission(self, name: str, at: float) -> RequestRecord:
        number = self._rng.randrange(len(self._sessions))
        path = self._sessions[number]
        if self._rng.random() < 0.2:
            del path[self._rng.randrange(1, len(path) + 1) :]
        path += [f"{name}-{block}" for block in range(self._rng.randrange(5))]
        return admission(
            path,
            name=name,
            at=at,
            engine=self._rng.choice(ENGINES),
            shares=[self._rng.randrange(4) * BLOCK_TOKENS for _ in range(4)],
            status=self._rng.choice([RequestStatus.SERVED] * 8 + list(RequestStatus)),
            session=number + 1,
        )

    def _event(self, at: float) -> BlockEvent:
        path = self._rng.choice(self._sessions)
        stored = self._rng.random() < 0.6
        return BlockEvent(
            tier=Tier.L0,
            holder=str(ENGINES[0]),
            action=BlockAction.STORED if stored else BlockAction.EVICTED,
            block_hashes=chain_of(path),
            at_unix_seconds=at,
            block_tokens=BLOCK_TOKENS,
            reason=None if stored else EvictionReason.CAPACITY,
        )

    def _readings(self, at: float) -> Iterator[LedgerEntry]:
        used = float(self._rng.randrange(1000))
        yield TierSample(Tier.L1, "lmcache-1", at, capacity_bytes=1000.0, used_bytes=used)
        yield TierSample(Tier.L0, str(ENGINES[0]), at, capacity_blocks=500, used_blocks=int(used) // 2)
        yield TierActivity(Tier.L1, "lmcache-1", at - 300, at, lookup_hit_tokens=int(used), stored_blocks=3)
        yield TierTransfer(
            Tier.L2, "pool", TransferAction.LOAD, at, at - 0.1, "fs", moved_blocks=3, size_bytes=int(used)
        )
        yield EngineTokens(ENGINES[0], "model", at - 300, at, NO_TOKENS + split_of(100, 60))
        yield SourceCoverage(SourceId(SourceKind.VLLM_HOOK, str(ENGINES[0])), 3, at - 300, at, 10, 1)
