"""Who names equal prompts differently, though what one stores another should find.

A chunk's or block's name is a hash of its tokens and of those before it. With a hash that depends on a seed
each process names differently: it stores into the shared pool, and never finds what another stored. Equal
prompts are told from others by a second name for the same tokens, which another hash gave.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tierscope.domain.names import Beginning

MOST_PROMPTS = 10_000
"""Beginnings of prompts that are remembered, the oldest forgotten first."""

LAST_COMPARED = 100
"""Common beginnings of two that they are judged by."""

FEWEST_PROMPTS = 3
"""Common beginnings that engines are judged by at the least: what is not text may be in their names."""

Pair = tuple[str, str]
Named = TypeVar("Named", str, Pair)


@dataclass(slots=True)
class ChunkNames:
    """What each of some processes calls the first tokens of a prompt. Used by one thread at a time."""

    _names: dict[Hashable, dict[str, int]] = field(default_factory=dict)
    _compared: dict[Pair, dict[Hashable, bool]] = field(default_factory=dict)
    """Whether two of them, by name, agreed, for each beginning that both were asked for."""

    def told(self, who: str, prompt: Hashable, name: int) -> bool:
        """One gave the first tokens of a prompt a `name`; `prompt` is another name for the same tokens.

        Returns whether that said anything new.
        """
        names = self._names.get(prompt)
        if names is None:
            if len(self._names) >= MOST_PROMPTS:
                del self._names[next(iter(self._names))]
            names = self._names[prompt] = {}
        if names.get(who) == name:
            return False
        names[who] = name
        self._compare(who, prompt, names)
        return True

    def _compare(self, who: str, prompt: Hashable, names: Mapping[str, int]) -> None:
        """Set one against those it was compared with before, and against one of each other name.

        So a fleet that agrees is compared with its first, and not everybody with everybody.
        """
        represented: set[int] = set()
        for other, name in names.items():
            if other == who:
                continue
            pair = (who, other) if who < other else (other, who)
            compared = self._compared.get(pair)
            if compared is None:
                if name in represented:
                    continue
                compared = self._compared[pair] = {}
            represented.add(name)
            compared.pop(prompt, None)
            if len(compared) >= LAST_COMPARED:
                del compared[next(iter(compared))]
            compared[prompt] = name == names[who]

    def name(self, who: str, prompt: Hashable) -> int | None:
        """What one calls a prompt's first tokens; None if it is not known."""
        return self._names.get(prompt, {}).get(who)

    def forget(self, prompt: Hashable) -> None:
        """Judge nobody by a prompt."""
        self._names.pop(prompt, None)
        for compared in self._compared.values():
            compared.pop(prompt, None)

    def strangers(self, who: str) -> dict[str, int]:
        """Return those who agree with one on no beginning at all, and on how many they were compared."""
        return {
            next(name for name in pair if name != who): len(compared)
            for pair, compared in self._compared.items()
            if who in pair and compared and not any(compared.values())
        }

    def pairs(self) -> dict[Pair, int]:
        """Return every two that agree on no beginning at all, and on how many they were compared."""
        return {
            pair: len(compared)
            for pair, compared in self._compared.items()
            if compared and not any(compared.values())
        }


@dataclass(slots=True)
class PromptNames:
    """What the cache servers and the engines of one endpoint call the beginnings of their prompts.

    Only those of one model in blocks and chunks of one size are compared. Engines are compared by names that
    tokens alone make: a salt or a LoRA adapter is in an engine's names and not in the server's. What else may
    be in them (an image) is not known, so of tokens that one engine has two names for nobody is judged.
    """

    servers: ChunkNames = field(default_factory=ChunkNames)
    engines: ChunkNames = field(default_factory=ChunkNames)
    _ambiguous: dict[Hashable, None] = field(default_factory=dict)

    @classmethod
    def of(cls, beginnings: Iterable[Beginning]) -> PromptNames:
        """Take many, oldest first."""
        names = cls()
        for beginning in beginnings:
            names.take(beginning)
        return names

    def take(self, beginning: Beginning) -> bool:
        """Take one prompt's first chunk; whether it said anything new."""
        kind = (beginning.model, beginning.block_tokens, beginning.chunk_tokens)
        news = self.servers.told(beginning.server, (*kind, beginning.block_hash), beginning.chunk_hash)
        if beginning.of_tokens_alone:
            news |= self._engine(str(beginning.engine), (*kind, beginning.chunk_hash), beginning.block_hash)
        return news

    def cache_pairs(self) -> dict[Pair, int]:
        """Every two cache servers that agree on no beginning, and on how many they were compared."""
        return self.servers.pairs()

    def engine_pairs(self) -> dict[Pair, int]:
        """Every two engines that agree on no beginning, and on how many they were compared."""
        return _enough(self.engines.pairs())

    def strangers(self, beginning: Beginning) -> tuple[dict[str, int], dict[str, int]]:
        """Who agrees with a beginning's server, and with its engine, on no beginning: name and how many."""
        engine = str(beginning.engine)
        return self.servers.strangers(beginning.server), _enough(self.engines.strangers(engine))

    def _engine(self, engine: str, prompt: Hashable, name: int) -> bool:
        if prompt in self._ambiguous:
            return False
        if self.engines.name(engine, prompt) in (None, name):
            return self.engines.told(engine, prompt, name)
        self.engines.forget(prompt)
        if len(self._ambiguous) >= MOST_PROMPTS:
            del self._ambiguous[next(iter(self._ambiguous))]
        self._ambiguous[prompt] = None
        return True


def _enough(compared: dict[Named, int]) -> dict[Named, int]:
    return {who: count for who, count in compared.items() if count >= FEWEST_PROMPTS}
