"""What a measurement comes to: one document, the published figures beside the measured ones. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tierscope.analytics.comparison import Estimate, Timings, break_even, median_of, ratio_of
from tierscope.cli.measuring.plan import Plan, Stage
from tierscope.cli.measuring.published import SWEEP, VERIFICATION, nearest
from tierscope.cli.measuring.run import Measurement, Timing

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Units:
    """What turns tokens into chunks and bytes. `bytes_per_token` is None where nobody said."""

    chunk_tokens: int
    bytes_per_token: float | None


def summarise(plan: Plan, found: Measurement, units: Units, *, disturbed: int) -> Document:
    """Return the whole result; only timings that came from where they were meant to stand in its figures."""
    rng = np.random.default_rng(plan.seed)
    good = {stage: _by_length(found.timings, stage) for stage in Stage}
    crossing = break_even(good[Stage.COLD], good[Stage.L2], rng)
    return {
        "plan": asdict(plan),
        "lengths": [_length(length, good, rng) for length in plan.lengths],
        "cross_replica": cross_replica(found.timings, units.chunk_tokens),
        "l2_load": _load(found, good, units),
        "break_even_tokens": None if crossing is None else _estimate(crossing),
        "best_speedup": _best(plan.lengths, good),
        "not_as_meant": _strays(found.timings),
        "left_out": {stage.value: why for stage, why in found.left_out.items()},
        "disturbed": disturbed,
        "tokens_differ": _differing(found.timings),
        "published": {
            "sweep": [{**row._asdict(), "speedup": row.speedup} for row in SWEEP],
            "verification": dict(VERIFICATION),
        },
    }


def cross_replica(timings: Iterable[Timing], chunk_tokens: int) -> Document:
    """Hits of prompts that the other replica wrote, of whole chunks and of tokens.

    An engine computes a prompt's last token always, so a chunk that lacks only this one is a hit. Prompts
    whose split nobody could tell, and whose engine does not tell either, are in no sum.
    """
    told = [(t, t.hit_tokens) for t in timings if t.stage is Stage.L2]
    known = [(timing, hits) for timing, hits in told if hits is not None]
    asked_tokens = sum(timing.prompt_tokens for timing, _ in known)
    asked_chunks = sum(timing.prompt_tokens // chunk_tokens for timing, _ in known)
    hit_tokens = sum(hits for _, hits in known)
    hit_chunks = sum((hits + 1) // chunk_tokens for _, hits in known)
    return {
        "prompts": len(told),
        "prompts_known": len(known),
        "asked_tokens": asked_tokens,
        "hit_tokens": hit_tokens,
        "token_hit_ratio": hit_tokens / asked_tokens if asked_tokens else None,
        "asked_chunks": asked_chunks,
        "hit_chunks": hit_chunks,
        "chunk_hit_ratio": hit_chunks / asked_chunks if asked_chunks else None,
        "tier_known": bool(known) and all(t.split is not None and not t.split.external for t, _ in known),
    }


def _by_length(timings: Iterable[Timing], stage: Stage) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for timing in timings:
        if timing.stage is stage and timing.is_as_meant:
            found.setdefault(timing.length, []).append(timing.ttft_seconds)
    return found


def _length(length: int, good: Mapping[Stage, Timings], rng: np.random.Generator) -> Document:
    cold = good[Stage.COLD].get(length, [])
    published = nearest(length)
    row: Document = {"prompt_tokens": length, "published_speedup": published and published.speedup}
    for stage in Stage:
        seconds = good[stage].get(length, [])
        row[stage.value] = {
            "timings": len(seconds),
            "ttft_seconds": _estimate(median_of(seconds, rng)) if seconds else None,
            "speedup": _estimate(ratio_of(cold, seconds, rng)) if seconds and cold else None,
        }
    return row


def _best(lengths: Sequence[int], good: Mapping[Stage, Timings]) -> Document | None:
    """The length at which L2 gains most, as the published 2.70 is."""
    ratios = {
        length: float(np.median(good[Stage.COLD][length]) / np.median(good[Stage.L2][length]))
        for length in lengths
        if good[Stage.COLD].get(length) and good[Stage.L2].get(length)
    }
    if not ratios:
        return None
    length = max(ratios, key=lambda one: ratios[one])
    return {"prompt_tokens": length, "value": ratios[length]}


def _load(found: Measurement, good: Mapping[Stage, Timings], units: Units) -> Document:
    """Seconds and bytes of loads from L2: told by the cache server, and by what L2 costs beyond L0."""
    tokens = sum(t.split.l2 for t in found.timings if t.stage is Stage.L2 and t.split is not None)
    seconds, size_bytes = found.l2_loads or (0.0, 0.0)
    beyond = _seconds_beyond_l0(good)
    per_request = sum(t.split is not None and t.split.l2 > 0 for t in found.timings if t.stage is Stage.L2)
    assumed = units.bytes_per_token and tokens * units.bytes_per_token
    return {
        "tokens": tokens,
        "seconds": seconds or None,
        "bytes": size_bytes or None,
        "bytes_per_second": size_bytes / seconds if seconds and size_bytes else None,
        "seconds_per_request_beyond_l0": beyond,
        "bytes_per_second_beyond_l0": assumed / (beyond * per_request)
        if assumed and beyond and beyond > 0
        else None,
    }


def _seconds_beyond_l0(good: Mapping[Stage, Timings]) -> float | None:
    """The mean over the lengths of what L2's median is above L0's."""
    gaps = [
        float(np.median(good[Stage.L2][length]) - np.median(good[Stage.L0][length]))
        for length in good[Stage.L2].keys() & good[Stage.L0].keys()
    ]
    return sum(gaps) / len(gaps) if gaps else None


def _strays(timings: Iterable[Timing]) -> list[Document]:
    """Timings that came from elsewhere, by stage and where from; in none of the figures."""
    counts = Counter((t.stage.value, t.served_from) for t in timings if not t.is_as_meant)
    return [
        {"stage": stage, "served_from": found and found.value, "timings": count}
        for (stage, found), count in sorted(counts.items(), key=str)
    ]


def _differing(timings: Iterable[Timing]) -> int:
    """Tokens by which the engine's `cached_tokens` and the split differ, added up; 0 is how it should be."""
    return sum(
        abs(t.cached_tokens - (t.split.prompt - t.split.computed))
        for t in timings
        if t.split is not None and t.cached_tokens is not None
    )


def _estimate(estimate: Estimate) -> Document:
    """JSON has no infinity: an end that is none is null."""
    return {name: value if math.isfinite(value) else None for name, value in estimate._asdict().items()}
