"""Who names equal prompts differently, though what one stores another should find.

A chunk's or block's name is a hash of its tokens and of those before it. With a hash that depends on a seed
each process names differently: it stores into the shared pool, and never finds what another stored. Equal
prompts are told from others by a second name for the same tokens, which another hash gave.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MOST_PROMPTS = 10_000
"""Beginnings of prompts that are remembered, the oldest forgotten first."""

LAST_COMPARED = 100
"""Common beginnings of two that they are judged by."""


@dataclass(slots=True)
class ChunkNames:
    """What each of some processes calls the first tokens of a prompt. Used by one thread at a time."""

    _names: dict[int, dict[str, int]] = field(default_factory=dict)
    _compared: dict[tuple[str, str], deque[bool]] = field(default_factory=dict)
    """Whether two of them, by name, agreed, for each beginning that both were asked for."""

    def told(self, who: str, prompt: int, name: int) -> None:
        """One gave the first tokens of a prompt a `name`; `prompt` is another name for the same tokens."""
        names = self._names.get(prompt)
        if names is None:
            if len(self._names) >= MOST_PROMPTS:
                del self._names[next(iter(self._names))]
            names = self._names[prompt] = {}
        if names.get(who) == name:
            return
        names[who] = name
        for other, others in names.items():
            if other != who:
                pair = (min(who, other), max(who, other))
                compared = self._compared.setdefault(pair, deque(maxlen=LAST_COMPARED))
                compared.append(others == name)

    def strangers(self, who: str) -> dict[str, int]:
        """Return those who agree with one on no beginning at all, and on how many they were compared."""
        return {
            next(name for name in pair if name != who): len(compared)
            for pair, compared in self._compared.items()
            if who in pair and not any(compared)
        }

    def pairs(self) -> dict[tuple[str, str], int]:
        """Return every two that agree on no beginning at all, and on how many they were compared."""
        return {pair: len(compared) for pair, compared in self._compared.items() if not any(compared)}
