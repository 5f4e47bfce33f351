"""How long blocks wait until they are wanted again, from request records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from tierscope.domain.identity import EngineId
from tierscope.domain.requests import RequestRecord
from tierscope.domain.tiers import Origin

MOST_BLOCKS = 500_000
"""Blocks of one engine whose last use is remembered, the least recently used half at a time forgotten."""


@dataclass(slots=True)
class _LastUses:
    """When blocks were last used, in two generations: what was used lately survives the turn of one."""

    young: dict[int, float] = field(default_factory=dict)
    old: dict[int, float] = field(default_factory=dict)

    def of(self, block_hashes: tuple[int, ...]) -> list[float | None]:
        """The last use of each block, None for one not remembered."""
        found = list(map(self.young.get, block_hashes))
        if self.old and None in found:
            older = self.old.get
            return [older(block) if at is None else at for block, at in zip(block_hashes, found, strict=True)]
        return found

    def touch(self, block_hashes: tuple[int, ...], at_unix_seconds: float) -> None:
        """Remember a use of each block."""
        if len(self.young) + len(block_hashes) > MOST_BLOCKS // 2:
            self.old, self.young = self.young, {}
        self.young.update(dict.fromkeys(block_hashes, at_unix_seconds))


@dataclass(frozen=True, slots=True)
class Reuse:
    """So many blocks of a request were last used so long before it; `origin` is where they came from now."""

    origin: Origin
    gap_seconds: float
    blocks: int


class ReuseGaps:
    """Remembers the last use of every engine's blocks, within bounds. Not thread-safe."""

    def __init__(self) -> None:
        self._uses: dict[tuple[EngineId, str], _LastUses] = {}

    def take(self, record: RequestRecord) -> Iterator[Reuse]:
        """Take one record; yield the gaps that it ends. Re-admissions and aborted requests end none.

        A request that asks no cache uses its blocks, but wants none of them again.
        """
        if not record.counts:
            return
        uses = self._uses.setdefault((record.engine, record.model), _LastUses())
        at = record.admitted_unix_seconds
        last_uses = uses.of(record.block_hashes) if record.asks_cache else []
        uses.touch(record.block_hashes, at)
        start = tokens = 0
        for origin in Origin:
            tokens += record.tokens.of(origin)
            end = tokens // record.block_tokens
            for last, run in groupby(last_uses[start:end]):
                if last is not None:
                    yield Reuse(origin, max(0.0, at - last), sum(1 for _ in run))
            start = end
