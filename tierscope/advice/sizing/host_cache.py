"""How the cache server of L1 really behaves: how much of it is of use, and what must pass through it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray, Int64Array
from tierscope.domain.window import RequestWindow

LEAST_USABLE_RATIO = 0.3
"""No server leaves more than this free on purpose: a lower reading is a cache that has not been filled."""


def filled_ratio(samples: Iterable[TierSample], since_unix_seconds: float) -> float | None:
    """Mean share of L1 that was in use from a time on; None without a reading.

    Of a cache that has to evict, this is what it can really hold: LMCache's server frees a share of its
    memory as soon as a watermark is passed, and never fills the rest.
    """
    shares = [
        sample.used_bytes / sample.capacity_bytes
        for sample in samples
        if sample.tier is Tier.L1
        and sample.at_unix_seconds >= since_unix_seconds
        and sample.used_bytes is not None
        and sample.capacity_bytes
    ]
    return float(np.clip(np.mean(shares), LEAST_USABLE_RATIO, 1.0)) if shares else None


def staged_tokens(window: RequestWindow, first: int) -> int:
    """The most tokens on their way from L1 and L2 into one replica at once, from request `first` on.

    A load lasts as long as its record says, else until the first token, else no time at all.
    """
    loaded = (window.l1 + window.l2 + window.external)[first:]
    until = np.where(np.isfinite(window.load_seconds), window.load_seconds, window.ttft_seconds)[first:]
    lasts = np.nan_to_num(until, nan=0.0)
    replicas = [(engine.namespace, engine.endpoint, engine.replica) for engine in window.engines]
    names = list(dict.fromkeys(replicas))
    replica_of = np.array([names.index(replica) for replica in replicas], dtype=np.int64)
    of = replica_of[window.engine[first:]] if len(replica_of) else np.zeros(0, dtype=np.int64)
    at = window.at_unix_seconds[first:]
    peaks = (
        _peak(at[of == number], lasts[of == number], loaded[of == number]) for number in range(len(names))
    )
    return max(peaks, default=0)


def _peak(at: FloatArray, lasts: FloatArray, tokens: Int64Array) -> int:
    """The highest sum of tokens whose spans [at, at + lasts] overlap."""
    times = np.concatenate((at, at + lasts))
    change = np.concatenate((tokens, -tokens))
    ends_last = np.concatenate((np.zeros(len(at)), np.ones(len(at))))
    return int(np.cumsum(change[np.lexsort((ends_last, times))]).max(initial=0))
