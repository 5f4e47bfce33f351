"""Who names equal prompts differently, though what one stores another should find.

A chunk's or block's name is a hash of its tokens and of those before it. With a hash that depends on a seed
each process names differently: it stores into the shared pool, and never finds what another stored. Equal
prompts are told from others by a second name for the same tokens, which another hash gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from tierscope.domain.identity import EngineId
from tierscope.domain.names import Beginning

MOST_PROMPTS = 10_000
"""Beginnings of prompts that are remembered, the oldest forgotten first; as long a silent process is."""

LAST_COMPARED = 100
"""Beginnings, those that it had in common with others last, that are counted of a process."""

FEWEST_PROMPTS = 3
"""Common beginnings that engines are judged by at the least: what is not text may be in their names."""

Pair = tuple[str, str]
Named = TypeVar("Named", str, Pair)


@dataclass(slots=True)
class ChunkNames:
    """What each of some processes calls the first tokens of a prompt. Used by one thread at a time.

    Who has one name with another for any prompt names like it, and like all that this one names like. Two
    that are not linked so are strangers if both named some prompt. What is forgotten counts no more: prompts
    beyond the newest `MOST_PROMPTS`, a process that was silent while as many beginnings were told (its pod is
    gone), and what one said before it gave a prompt another name (it started anew, with another seed).
    """

    _names: dict[Hashable, dict[str, int]] = field(default_factory=dict)
    _common: dict[str, dict[Hashable, None]] = field(default_factory=dict)
    """By process, prompts that another one named as well, those that were named last at the end."""
    _agreed: dict[Pair, int] = field(default_factory=dict)
    """Prompts that two have one name for; where more than two have it, of each with the first by name."""
    _heard: dict[str, int] = field(default_factory=dict)
    """The number of each process's last telling, longest silent first."""
    _tellings: int = 0
    _groups: dict[str, str] | None = None
    """Who names alike, by one of them; None until it is asked for."""

    def told(self, who: str, prompt: Hashable, name: int) -> bool:
        """One gave the first tokens of a prompt a `name`; `prompt` is another name for the same tokens.

        Returns whether that said anything new.
        """
        self._hear(who)
        before = self.name(who, prompt)
        if before == name:
            return False
        if before is not None:
            self._forget_names_of(who)
        if prompt not in self._names and len(self._names) >= MOST_PROMPTS:
            self.forget(next(iter(self._names)))
        self._set(prompt, {**self._names.get(prompt, {}), who: name})
        return True

    def name(self, who: str, prompt: Hashable) -> int | None:
        """What one calls a prompt's first tokens; None if it is not known."""
        return self._names.get(prompt, {}).get(who)

    def forget(self, prompt: Hashable) -> None:
        """Judge nobody by a prompt."""
        self._set(prompt, {})

    def strangers(self, who: str) -> dict[str, int]:
        """Return those who name otherwise than one, and on how many of its last prompts."""
        mine = self.like(who)
        others = {other for other in self._heard if self.like(other) != mine}
        last = islice(reversed(self._common.get(who, {})), LAST_COMPARED) if others else ()
        return dict(Counter(other for prompt in last for other in others.intersection(self._names[prompt])))

    def like(self, who: str) -> str:
        """Return one of all that name like this one, always the same."""
        return self._named_alike().get(who, who)

    def pairs(self) -> dict[Pair, int]:
        """Return every two that name otherwise than each other, and on how many prompts."""
        found: dict[Pair, int] = {}
        for who in self._heard:
            for other, count in self.strangers(who).items():
                pair = (who, other) if who < other else (other, who)
                found[pair] = max(found.get(pair, 0), count)
        return found

    def _hear(self, who: str) -> None:
        self._tellings += 1
        self._heard.pop(who, None)
        self._heard[who] = self._tellings
        silent = next(iter(self._heard))
        if self._tellings - self._heard[silent] > MOST_PROMPTS:
            self._forget_names_of(silent)
            del self._heard[silent]

    def _forget_names_of(self, who: str) -> None:
        for prompt in [prompt for prompt, names in self._names.items() if who in names]:
            self._set(prompt, {one: name for one, name in self._names[prompt].items() if one != who})
        self._common.pop(who, None)

    def _set(self, prompt: Hashable, names: dict[str, int]) -> None:
        """Make these a prompt's names; without any it is forgotten."""
        before = self._names.get(prompt, {})
        self._count(names, 1)
        self._count(before, -1)
        for who in before:
            self._common.get(who, {}).pop(prompt, None)
        if len(names) > 1:
            for who in names:
                self._common.setdefault(who, {})[prompt] = None
        if names:
            self._names[prompt] = names
        else:
            self._names.pop(prompt, None)

    def _count(self, names: Mapping[str, int], by: int) -> None:
        """Count who has one name with whom; a fleet that agrees has as many pairs as members, not squared."""
        first: dict[int, str] = {}
        for who in sorted(names):
            one = first.setdefault(names[who], who)
            if one == who:
                continue
            times = self._agreed.get((one, who), 0) + by
            if times == max(by, 0):
                self._groups = None
            if times:
                self._agreed[one, who] = times
            else:
                del self._agreed[one, who]

    def _named_alike(self) -> dict[str, str]:
        """By process, one of all that it is linked to by agreement; who agreed with nobody is not in it."""
        if self._groups is None:
            above: dict[str, str] = {}

            def top(who: str) -> str:
                while (over := above.setdefault(who, who)) != who:
                    above[who] = above[over]
                    who = over
                return who

            for one, other in self._agreed:
                above[top(other)] = top(one)
            self._groups = {who: top(who) for who in above}
        return self._groups


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
        """Every two cache servers that are strangers, and on how many beginnings they were compared."""
        return self.servers.pairs()

    def engine_pairs(self) -> dict[Pair, int]:
        """Every two engines that are strangers, and on how many beginnings they were compared."""
        return _enough(self.engines.pairs())

    def strangers(self, beginning: Beginning) -> tuple[dict[str, int], dict[str, int]]:
        """Who is a stranger to a beginning's server, and to its engine: name and how many were compared."""
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


def named_by(beginnings: Iterable[Beginning], engines: Sequence[EngineId]) -> list[int] | None:
    """Number engines by how their cache servers name chunks: (engines,); None where there is but one way.

    Whose server was held against nobody's, or is not known, is taken to name as the first stranger does.
    """
    beginnings = tuple(beginnings)
    names = PromptNames.of(beginnings)
    strangers = {server for pair in names.cache_pairs() for server in pair}
    if not strangers:
        return None
    server_of = {beginning.engine: beginning.server for beginning in beginnings}
    first = min(strangers)
    ways: dict[str, int] = {}
    servers = (server_of.get(engine, first) for engine in engines)
    told = (server if server in strangers else first for server in servers)
    return [ways.setdefault(names.servers.like(server), len(ways)) for server in told]


def _enough(compared: dict[Named, int]) -> dict[Named, int]:
    return {who: count for who, count in compared.items() if count >= FEWEST_PROMPTS}
