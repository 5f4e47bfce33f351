"""Who did it: an alarm taken apart into mix, tier shares, tier speed, queue and engine, in seconds a request.

Every part is the mean over requests since the change, less the same over the baseline. They add up to how
much TTFT rose, but for what the trimming of outliers takes away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.baseline import Baseline
from tierscope.analytics.regression.observations import Observations
from tierscope.analytics.ttft import TtftFit, fit_ttft
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray

TRIMMED = 0.05
"""Share of the requests with the largest and with the smallest values that means leave out."""
FULL_RATIO = 0.95
LOST_CAPACITY_RATIO = 0.9
"""A pool that has shrunk below this share of its size has lost a worker."""
SEED_LEFT = 0.25
"""Where replicas name chunks differently, less than this share of hits on foreign prefixes is left."""
LEAST_FOREIGN_TOKENS = 10_000
LEAST_LOADS = 20


class Cause(StrEnum):
    """What made TTFT rise."""

    MIX = "mix"
    """Prompts are longer or repeat less: nothing is broken."""
    TIER_SHARE = "tier_share"
    """A tier serves less of what could be reused."""
    TIER_SPEED = "tier_speed"
    """Loads from a tier take longer."""
    QUEUE = "queue"
    """Requests wait longer for a slot."""
    ENGINE = "engine"
    """The same tokens take longer to compute."""


class Reason(StrEnum):
    """Why a tier serves less, or more slowly."""

    EVICTIONS = "evictions"
    """It no longer holds what it held."""
    POOL_FULL = "pool_full"
    ROUTING = "routing"
    """Prompts come to other engines than those that hold their prefix."""
    SEED = "seed"
    """What one engine stored, another no longer finds: their hashes differ."""
    WORKER_LOST = "worker_lost"
    """The pool is smaller than it was."""
    SLOW = "slow"
    NONE = ""


class PoolReadings(NamedTuple):
    """A pool before and since the change, in bytes; None where its use is not told."""

    capacity_before: float
    capacity_since: float
    used_since: float | None = None


Pools = tuple[PoolReadings, ...]
"""Every pool that told its size. Each is held against itself: there may be a large one and a small one."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The cause with the most seconds; `tier` and `reason` where it has them. `parts` are all of them."""

    cause: Cause
    tier: Tier | None
    reason: Reason
    parts: dict[Cause, float]
    factor: float
    """How many times slower, or what share of its usual hits is left: of the tier or part blamed."""


class PartsModel(NamedTuple):
    """Loads and the rest of TTFT, each fitted on the baseline by the tokens it depends on."""

    load: TtftFit | None
    rest: TtftFit

    def load_seconds(self, seen: Observations) -> FloatArray:
        """What loads usually take for these tokens; 0 where nothing is loaded."""
        if self.load is None:
            return np.zeros(len(seen.prompt))
        loads = seen.l1 + seen.external + seen.l2 > 0
        found: FloatArray = np.where(loads, self.load.seconds(_loaded(seen)), 0.0)
        return found


def attribute(baseline: Baseline, model: PartsModel, since: Observations, pools: Pools) -> Attribution:
    """Take the rise since the change apart."""
    parts = rises(baseline, model, since)
    blamed = {cause: seconds for cause, seconds in parts.items() if cause is not Cause.MIX}
    cause = max(blamed, key=lambda one: blamed[one])
    tier: Tier | None
    match cause:
        case Cause.TIER_SHARE:
            tier, reason, factor = _lost_share(baseline, since, pools)
        case Cause.TIER_SPEED:
            tier, factor = _slow_tier(model, since)
            reason = Reason.WORKER_LOST if tier is Tier.L2 and _shrunk(pools) else Reason.SLOW
        case _:
            tier, reason, factor = None, Reason.NONE, _factor(cause, model, baseline.past, since)
    return Attribution(cause, tier, reason, parts, factor)


def rises(baseline: Baseline, model: PartsModel, since: Observations) -> dict[Cause, float]:
    """Mean seconds of each part in some requests, less those of the baseline."""
    before = baseline.past

    def rise(of: FloatArray, against: FloatArray) -> float:
        return _mean(of) - _mean(against)

    mix = rise(_usual(baseline, since), _usual(baseline, before))
    share = rise(_share_cost(baseline, since), _share_cost(baseline, before))
    if not baseline.has_reuse:
        mix, share = rise(baseline.expected_seconds(since), baseline.expected_seconds(before)), 0.0
    return {
        Cause.MIX: mix,
        Cause.TIER_SHARE: share,
        Cause.TIER_SPEED: rise(_load_excess(model, since), _load_excess(model, before)),
        Cause.QUEUE: rise(since.queue_seconds, before.queue_seconds),
        Cause.ENGINE: rise(_rest_excess(model, since), _rest_excess(model, before)),
    }


def _share_cost(baseline: Baseline, seen: Observations) -> FloatArray:
    return baseline.expected_seconds(seen) - _usual(baseline, seen)


def _routing_cost(baseline: Baseline, seen: Observations) -> FloatArray:
    return baseline.usual_seconds(seen, placed=True) - _usual(baseline, seen)


def _usual(baseline: Baseline, seen: Observations) -> FloatArray:
    return baseline.usual_seconds(seen, placed=False)


def _load_excess(model: PartsModel, seen: Observations) -> FloatArray:
    return seen.load_seconds - model.load_seconds(seen)


def _rest_excess(model: PartsModel, seen: Observations) -> FloatArray:
    rest = seen.ttft_seconds - seen.queue_seconds - seen.load_seconds
    return rest - model.rest.seconds(seen.tokens())


def fit_parts(past: Observations) -> PartsModel:
    """Fit loads, where there were some, and the rest of TTFT on the baseline."""
    loads = (past.load_seconds > 0) & (past.l1 + past.external + past.l2 > 0)
    fits = loads.sum() >= LEAST_LOADS
    load = fit_ttft(_loaded(past)[loads], past.load_seconds[loads]) if fits else None
    rest = np.maximum(past.ttft_seconds - past.queue_seconds - past.load_seconds, 1e-6)
    return PartsModel(load, fit_ttft(past.tokens(), rest))


def _loaded(seen: Observations) -> FloatArray:
    return np.column_stack((seen.l1 + seen.external, seen.l2))


def _lost_share(baseline: Baseline, since: Observations, pools: Pools) -> tuple[Tier, Reason, float]:
    """Whose lost tokens cost most against what is usual, why, and what share of its usual hits is left."""
    before = baseline.past
    whole = _mean(_share_cost(baseline, since)) - _mean(_share_cost(baseline, before))
    routed = _mean(_routing_cost(baseline, since)) - _mean(_routing_cost(baseline, before))
    by_routing = routed > whole / 2
    now, then = (_lost_tokens(baseline, seen, by_routing=by_routing) for seen in (since, before))
    tokens, seconds = now.tokens - then.tokens, now.seconds - then.seconds
    costs = np.where(tokens > 0, seconds, 0.0)
    # Most of the rise may be that a tier slower than computing serves instead: then what was lost says whose.
    tier = list(Tier)[int(np.argmax(costs if costs.max() > max(seconds.mean(), 0) else tokens))]
    usual = baseline.shares.served(since, placed=False).sum(axis=0)
    left = since.served().sum(axis=0) / np.maximum(usual, 1.0)
    kept = {one: float(share) for one, share in zip(Tier, left, strict=True)}
    if by_routing:
        return tier, Reason.ROUTING, kept[tier]
    if tier is Tier.L2 and _shrunk(pools):
        return tier, Reason.WORKER_LOST, kept[tier]
    if _differs_by_seed(before, since):
        return Tier.L2, Reason.SEED, kept[Tier.L2]
    if tier is Tier.L2 and _full(pools):
        return tier, Reason.POOL_FULL, kept[tier]
    return tier, Reason.EVICTIONS, kept[tier]


class _Lost(NamedTuple):
    """What L0, L1 and L2 serve less than is usual, a request: tokens, and seconds to compute them: (3,)."""

    tokens: FloatArray
    seconds: FloatArray


def _lost_tokens(baseline: Baseline, seen: Observations, *, by_routing: bool) -> _Lost:
    """By the router: what is usual less what is where requests were sent; by the caches: that less hits."""
    placed = baseline.shares.served(seen, placed=True)
    usual, left = (
        (baseline.shares.served(seen, placed=False), placed) if by_routing else (placed, seen.served())
    )
    lost = usual - left
    _, computed, *loaded, pair = baseline.fit.coefficients
    # A token that is computed makes a pair with each that is cached, and fewer are with every token lost:
    # half-way between all and those that are left, the pairs of all tiers add up to what TTFT is fitted on.
    cached = (usual + left).sum(axis=1) / 2
    seconds = lost.sum(axis=0) * (computed - np.array(loaded)) + pair * (cached @ lost)
    return _Lost(lost.mean(axis=0), seconds / len(lost))


def _differs_by_seed(before: Observations, since: Observations) -> bool:
    """What only other engines were asked for used to be found here, and no longer is.

    A change is dated to about a minute, and requests that came before it must not hide that nothing is found
    any more. So of those since, the later half of such tokens tells.
    """
    if min(before.foreign.sum(), since.foreign.sum()) < LEAST_FOREIGN_TOKENS:
        return False
    asked = np.cumsum(since.foreign)
    later = since.take(asked > asked[-1] / 2)
    return _foreign_share(later) < SEED_LEFT * _foreign_share(before)


def _foreign_share(seen: Observations) -> float:
    """Share of the tokens this engine never was asked for, but others were, that some tier served."""
    served = np.clip(seen.prompt - seen.computed - (seen.reusable - seen.foreign), 0, seen.foreign)
    return float(served.sum() / seen.foreign.sum())


def _slow_tier(model: PartsModel, since: Observations) -> tuple[Tier, float]:
    """Of the tiers that were loaded from, the one whose loads take longer, and how many times as long."""
    loads = (since.load_seconds > 0) & (since.l1 + since.external + since.l2 > 0)
    if model.load is None or loads.sum() < LEAST_LOADS:
        return Tier.L2, 1.0
    loaded = since.take(loads)
    deep = loaded.l2 > 0
    ratio = loaded.load_seconds / np.maximum(model.load_seconds(loaded), 1e-6)
    excess = _load_excess(model, loaded)
    rows = {tier: those for tier, those in ((Tier.L2, deep), (Tier.L1, ~deep)) if those.any()}
    tier = max(rows, key=lambda one: float(excess[rows[one]].sum()))
    return tier, float(np.median(ratio[rows[tier]]))


def _factor(cause: Cause, model: PartsModel, before: Observations, since: Observations) -> float:
    if cause is Cause.QUEUE:
        return _mean(since.queue_seconds) / max(_mean(before.queue_seconds), 1e-3)
    rest = since.ttft_seconds - since.queue_seconds - since.load_seconds
    return float(np.median(rest / model.rest.seconds(since.tokens())))


def _shrunk(pools: Pools) -> bool:
    return any(one.capacity_since < LOST_CAPACITY_RATIO * one.capacity_before for one in pools)


def _full(pools: Pools) -> bool:
    return any(
        one.used_since is not None and one.used_since >= FULL_RATIO * one.capacity_since > 0 for one in pools
    )


def _mean(values: FloatArray) -> float:
    """Mean of the middle: a few requests that took ten times as long decide nothing."""
    if not len(values):
        return 0.0
    ordered = np.sort(values)
    cut = int(TRIMMED * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())
