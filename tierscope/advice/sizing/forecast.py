"""When the pool will be full, from how it grew; absent where its growth does not go on as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from tierscope.advice.document import Forecast, utc
from tierscope.advice.predictions import Estimate
from tierscope.advice.thresholds import (
    FORECAST_DAY_SECONDS,
    FULL_TIER_RATIO,
    MIN_FORECAST_SAMPLES,
    MOST_FORECAST_SPANS,
    MOST_UNSTEADINESS,
    RESAMPLES,
    SEED,
    SLICES,
    TELLING_FALL,
)
from tierscope.analytics.bootstrap import HIGH, LOW, slice_draws
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray
from tierscope.domain.wiring import PoolWiring

HOUR_SECONDS = 3600.0


def forecasts(samples: Iterable[TierSample], pool: PoolWiring | None) -> Iterator[Forecast]:
    """Yield when each L2 will be full. Growth must be steady, and no file may go before that.

    The rate is that of the later half of the readings; its interval is of slices of time drawn with
    replacement, as wide as a future of that length is uncertain, and has both halves' rates in it.
    """
    known = [s for s in samples if s.tier is Tier.L2 and s.used_bytes is not None and s.capacity_bytes]
    known.sort(key=lambda sample: (sample.holder, sample.at_unix_seconds))
    for holder, of in groupby(known, key=lambda sample: sample.holder):
        run = _since_it_last_shrank(list(of))
        if len(run) >= MIN_FORECAST_SAMPLES:
            yield from _forecast(holder, run, _lifetime(pool))


def _forecast(holder: str, run: list[TierSample], lifetime_seconds: float | None) -> Iterator[Forecast]:
    at = np.array([sample.at_unix_seconds for sample in run])
    used = np.array([sample.used_bytes for sample in run], dtype=np.float64)
    room = FULL_TIER_RATIO * (run[-1].capacity_bytes or 0.0) - float(used[-1])
    span = float(at[-1] - at[0])
    edges = np.linspace(at[0], at[-1], SLICES + 1)
    rates: FloatArray = np.diff(np.interp(edges, at, used)) / np.diff(edges)
    early, late = float(rates[: SLICES // 2].mean()), float(rates[SLICES // 2 :].mean())
    if room <= 0 or min(early, late) <= 0 or max(early, late) > MOST_UNSTEADINESS * min(early, late):
        return
    wait = room / late
    low, high = _rate_interval(rates, late, span, wait, (early, late))
    if low <= 0 or wait > (MOST_FORECAST_SPANS if span >= FORECAST_DAY_SECONDS else 1) * span:
        return
    if lifetime_seconds is not None and room / low > lifetime_seconds:
        return
    now = float(at[-1])
    yield Forecast(
        tier=Tier.L2,
        holder=holder,
        full_at=utc(now + wait),
        earliest=utc(now + room / high),
        latest=utc(now + room / low),
        growth_bytes_per_hour=Estimate(*(HOUR_SECONDS * rate for rate in (late, low, high))),
    )


def _rate_interval(
    rates: FloatArray, rate: float, span: float, ahead: float, halves: tuple[float, float]
) -> tuple[float, float]:
    """Ends of the mean rate over the time ahead: what is known of the past, and the future's own chance."""
    draws = slice_draws(len(rates), RESAMPLES, np.random.default_rng(SEED))
    means = draws @ rates / len(rates)
    low, high = (float(end) for end in np.quantile(means - means.mean(), (LOW, HIGH)))
    # The later half alone is half as long, and what is ahead has a chance of its own.
    wider = float(np.sqrt(2 + span / max(ahead, 1.0)))
    return min(rate + wider * low, *halves), max(rate + wider * high, *halves)


def _since_it_last_shrank(readings: list[TierSample]) -> list[TierSample]:
    """The last readings of one pool of one size whose use never fell; none where that is the lesser part."""
    first = 0
    for place in range(1, len(readings)):
        before, now = readings[place - 1], readings[place]
        capacity = now.capacity_bytes or 0.0
        fell = (before.used_bytes or 0.0) - (now.used_bytes or 0.0) > TELLING_FALL * capacity
        if fell or before.capacity_bytes != now.capacity_bytes:
            first = place
    run = readings[first:]
    return run if 2 * len(run) > len(readings) else []


def _lifetime(pool: PoolWiring | None) -> float | None:
    """Age at which files are deleted; None where they stay."""
    return pool.ttl_seconds if pool is not None and pool.ttl_action == "delete" else None
