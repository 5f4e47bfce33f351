"""How the cache server of L1 really behaves: how much of it is of use, and what must pass through it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tierscope.advice.thresholds import FEWEST_ROUNDS, ROUND_LEAST_FALL, ROUND_LEAST_LEFT
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray, Int64Array
from tierscope.domain.window import RequestWindow

LEAST_USABLE_RATIO = 0.3
"""No server leaves more than this free on purpose: a lower reading is a cache that has not been filled."""


class Fill(NamedTuple):
    """Bytes of one L1 in use at a time, of so many."""

    at_unix_seconds: float
    used_bytes: float
    capacity_bytes: float


def filled_ratio(samples: Iterable[TierSample], since_unix_seconds: float) -> float | None:
    """Mean share of L1 that was in use from a time on; None without a reading.

    Of a cache that has to evict, this is what it can really hold: LMCache's server frees a share of its
    memory as soon as a watermark is passed, and never fills the rest.
    """
    fills = _fills(samples, since_unix_seconds).values()
    shares = [fill.used_bytes / fill.capacity_bytes for one in fills for fill in one]
    return float(np.clip(np.mean(shares), LEAST_USABLE_RATIO, 1.0)) if shares else None


def frees_in_rounds(samples: Iterable[TierSample], since_unix_seconds: float) -> bool:
    """Whether readings from a time on show that some L1 makes room in rounds, and not chunk by chunk."""
    return any(
        sum(_is_round(before, now) for before, now in pairwise(sorted(fills))) >= FEWEST_ROUNDS
        for fills in _fills(samples, since_unix_seconds).values()
    )


def _is_round(before: Fill, now: Fill) -> bool:
    """Whether a share of it is gone, and not all of it."""
    fell = before.used_bytes - now.used_bytes
    return (
        fell >= ROUND_LEAST_FALL * now.capacity_bytes
        and now.used_bytes >= ROUND_LEAST_LEFT * before.used_bytes
    )


def _fills(samples: Iterable[TierSample], since_unix_seconds: float) -> dict[str, list[Fill]]:
    """Readings of each L1 from a time on that tell its size and what is in use."""
    found: dict[str, list[Fill]] = {}
    for sample in samples:
        if sample.tier is Tier.L1 and sample.at_unix_seconds >= since_unix_seconds:
            used, capacity = sample.used_bytes, sample.capacity_bytes
            if used is not None and capacity:
                found.setdefault(sample.holder, []).append(Fill(sample.at_unix_seconds, used, capacity))
    return found


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
    each = (np.flatnonzero(of == number) for number in range(len(names)))
    return max((_peak(at[its], lasts[its], loaded[its]) for its in each), default=0)


def _peak(at: FloatArray, lasts: FloatArray, tokens: Int64Array) -> int:
    """The highest sum of tokens whose spans [at, at + lasts] overlap."""
    times = np.concatenate((at, at + lasts))
    change = np.concatenate((tokens, -tokens))
    ends_last = np.concatenate((np.zeros(len(at)), np.ones(len(at))))
    return int(np.cumsum(change[np.lexsort((ends_last, times))]).max(initial=0))
