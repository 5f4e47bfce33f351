"""One client's conversation: a text that only grows, asked about turn by turn."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tierscope.testbed.workload.hashes import Chain, mix
from tierscope.testbed.workload.request import Request


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text that several sessions begin with: its tokens and its full blocks."""

    tokens: int
    root: int
    chain: Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a kind of client behaves. Tokens and seconds are medians of log-normal draws with `spread`."""

    kind: str
    mean_turns: float
    first_tokens: float
    added_tokens: float
    output_tokens: float
    think_seconds: float
    spread: float = 0.6


class Session:
    """The conversation of one client; makes its requests one after the other."""

    def __init__(self, name: str, style: Style, prefix: Prefix, *, block_tokens: int, seed: int) -> None:
        self.name = name
        self.style = style
        self.salt: str | None = None
        self._rng = random.Random(seed)
        self._content = mix(seed, 1)
        self._root = prefix.root
        self._block_tokens = block_tokens
        self._chain = prefix.chain.prefix(len(prefix.chain))
        self._tokens = prefix.tokens
        self._turn = 0
        self._turns = self._draw_turns()

    def _draw_turns(self) -> int:
        """A geometric number of turns with the style's mean, at least 1."""
        turns = 1
        while self._rng.random() < 1 - 1 / self.style.mean_turns:
            turns += 1
        return turns

    def _draw_tokens(self, median: float) -> int:
        return max(1, round(median * self._rng.lognormvariate(0, self.style.spread)))

    def think_seconds(self) -> float:
        """Time between an answer and the next turn."""
        return self.style.think_seconds * self._rng.lognormvariate(0, 2 * self.style.spread)

    def next_request(
        self, at_seconds: float, *, request_id: str, max_prompt_tokens: int, abort_ratio: float, traced: float
    ) -> Request | None:
        """The next turn, or None when the client has nothing more to say or the text is too long."""
        if self._turn == self._turns:
            return None
        prompt = self._tokens + self._draw_tokens(
            self.style.added_tokens if self._turn else self.style.first_tokens
        )
        output = self._draw_tokens(self.style.output_tokens)
        if prompt > max_prompt_tokens:
            return None
        self._turn += 1
        self._tokens = prompt + output
        # The last answer token's KV values are never computed, so its block is not full yet.
        self._chain.grow(
            root=self._root, content=self._content, blocks=(self._tokens - 1) // self._block_tokens
        )
        rng = self._rng
        return Request(
            request_id=request_id,
            session=self.name,
            at_seconds=at_seconds,
            prompt_tokens=prompt,
            output_tokens=output,
            hashes=self._chain.hashes[:],
            digests=self._chain.digests[: prompt // self._block_tokens],
            salt=self.salt,
            traceparent=(
                f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01"
                if rng.random() < traced
                else None
            ),
            abort_after_seconds=rng.uniform(0, 2) if rng.random() < abort_ratio else None,
        )
