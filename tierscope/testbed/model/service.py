"""How long things take, with noise drawn from a generator of the replica's own."""

from __future__ import annotations

import random

from tierscope.testbed.config import ServiceTimes


class Service:
    """Draws service times; each is its expectation times a log-normal factor of median 1."""

    def __init__(self, times: ServiceTimes, *, bytes_per_token: int, chunk_tokens: int, seed: int) -> None:
        self.times = times
        """What the expectations are made of; may be replaced on the way."""
        self._bytes_per_token = bytes_per_token
        self._chunk_tokens = chunk_tokens
        self._rng = random.Random(seed)

    def load_seconds(self, l1_tokens: int, l2_tokens: int) -> float:
        """Time to bring KV values into GPU memory: from L1, and from L2 through it."""
        times = self.times
        l1 = self._load(l1_tokens, times.l1_bytes_per_second, times.l1_seconds_per_chunk)
        l2 = self._load(l2_tokens, times.l2_bytes_per_second, times.l2_seconds_per_chunk)
        return (l1 + l2) * self._noise()

    def prefill_seconds(self, computed_tokens: int, cached_tokens: int) -> float:
        """Time from admission (or the end of its loads) to the first token."""
        times = self.times
        pairs = computed_tokens * (cached_tokens + computed_tokens / 2)
        return self._noise() * (
            times.fixed_seconds
            + times.prefill_seconds_per_token * computed_tokens
            + times.attention_seconds_per_token_pair * pairs
        )

    def decode_seconds_per_token(self) -> float:
        """Time between two tokens of one answer."""
        return self.times.decode_seconds_per_token * self._noise()

    def _load(self, tokens: int, bytes_per_second: float, seconds_per_chunk: float) -> float:
        chunks = tokens / self._chunk_tokens
        return tokens * self._bytes_per_token / bytes_per_second + chunks * seconds_per_chunk

    def _noise(self) -> float:
        return self._rng.lognormvariate(0, self.times.noise_sigma)
