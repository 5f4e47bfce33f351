"""What several readers know of one engine, shared between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from exporters.lookups import LookupKeeper
from exporters.vllm.residency import Residency
from tierscope.domain.identity import EngineId
from tierscope.registry.types import Sample


@dataclass(slots=True)
class EngineFacts:
    """What is known of one engine from any of its sources; None until one of them says it.

    Each field is set by one reader and read by others; a reader sees the old or the new value. `lookups` are
    those of the cache server it loads from, None where that does not tell them.
    """

    model: str | None = None
    block_tokens: int | None = None
    chunk_tokens: int | None = None
    residency: Residency | None = None
    lookups: LookupKeeper | None = None


@dataclass(slots=True)
class Engines:
    """The engines of this node, and those that turn up beside them on a page."""

    _facts: dict[EngineId, EngineFacts] = field(default_factory=dict)

    def facts(self, engine: EngineId) -> EngineFacts:
        """Return the facts of an engine, empty ones for one that is new."""
        return self._facts.setdefault(engine, EngineFacts())

    def samples(self) -> Iterator[Sample]:
        """Yield what the engines' residencies count."""
        for facts in list(self._facts.values()):
            if facts.residency is not None:
                yield from facts.residency.samples()
