"""What several readers know of one pool, shared between them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class PoolFacts:
    """What is known of one pool from any of its sources. Set by one reader, read by others.

    `master_tells` is whether its Curvine master gives its size: the one reading of it that counts.
    `used_bytes` is what the master says, `cache_bytes` what each LMCache server that writes to it says it
    holds, by server; None and absent until somebody says so.
    """

    master_tells: bool = False
    master_was_asked: threading.Event = field(default_factory=threading.Event)
    """Set once a first reading of the master ended, well or not."""
    workers: Mapping[str, str] | None = None
    """Live workers with the base address of their pages."""
    used_bytes: int | None = None
    cache_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ManagedTier:
    """Whether each LMCache server of this node has the operator's own memory tier as its L2."""

    used_by_server: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Pools:
    """The pools of this node's settings, and those that are only written to."""

    managed_tier: ManagedTier = field(default_factory=ManagedTier)
    _facts: dict[str, PoolFacts] = field(default_factory=dict)

    def facts(self, pool: str) -> PoolFacts:
        """Return the facts of a pool, empty ones for one that is new."""
        return self._facts.setdefault(pool, PoolFacts())

    def forget_cache(self, cache: str) -> None:
        """A cache is gone: what it said of any L2 is not known any more."""
        self.managed_tier.used_by_server.pop(cache, None)
        for facts in list(self._facts.values()):
            facts.cache_bytes.pop(cache, None)
