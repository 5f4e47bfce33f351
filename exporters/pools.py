"""What several readers know of one pool, shared between them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PoolFacts:
    """What is known of one pool from any of its sources. Set by one reader, read by others.

    `master_tells` is whether its Curvine master gives its size: the one reading of it that counts.
    """

    master_tells: bool = False


@dataclass(slots=True)
class Pools:
    """The pools of this node's settings, and those that are only written to."""

    _facts: dict[str, PoolFacts] = field(default_factory=dict)

    def facts(self, pool: str) -> PoolFacts:
        """Return the facts of a pool, empty ones for one that is new."""
        return self._facts.setdefault(pool, PoolFacts())
