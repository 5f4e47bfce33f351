"""What happened to an endpoint's tokens in a span: who served them, why the rest was computed, what it took.

Earlier requests only fill the modelled tiers, so that what they brought in is not taken for new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tierscope.advice.readings import TierReading, chunk_tokens, completeness_ratio, read_tiers
from tierscope.advice.sizing.cost import instance_of
from tierscope.advice.sizing.latency import TtftModel, ttft_model
from tierscope.advice.study import Study, study_of
from tierscope.advice.thresholds import SERVER_LEAST_RATIO
from tierscope.analytics.chunk_names import named_by
from tierscope.analytics.misses import Cause, TierUnits, miss_causes
from tierscope.analytics.prefixes import SharedPrefix, shared_prefixes
from tierscope.domain.deployment import Deployment
from tierscope.domain.tiers import Origin, Tier
from tierscope.domain.trace import FloatArray, Int64Array
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan

MOST_PREFIXES = 24
"""Prefixes that are listed: more are neither read nor told apart in a map."""
SECONDS_AN_HOUR = 3600.0
LOWER_TIERS = (Tier.L1, Tier.L2)
OUTERMOST_FIRST = (Origin.EXTERNAL, Origin.L2, Origin.L1, Origin.L0)


@dataclass(frozen=True, slots=True)
class MoreRoom:
    """Tokens that a tier would have hit with so many bytes more in each holder, and not with fewer."""

    tier: Tier
    extra_bytes: float
    tokens: int


@dataclass(frozen=True, slots=True)
class MissCauses:
    """Computed tokens by cause, adding up to all that was computed; null with the reason."""

    causes: Mapping[Cause, int] | None
    room: tuple[MoreRoom, ...]
    """What more capacity would have served, cheapest step first."""
    absent_because: str | None
    """Why there are no causes; null where there are."""
    seconds: Mapping[Cause, float] | None = None
    """TTFT that computing each cause's tokens took, over all requests; null where the model does not fit."""
    money: Mapping[Cause, float] | None = None
    """What these seconds of a replica cost, in `currency`; null where its instance type has no price."""
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class TtftOf:
    """TTFT of the requests whose outermost serving tier is the same, in seconds."""

    served_from: Origin
    requests: int
    p50: float
    p90: float
    expected_p50: float | None
    """What the fitted model expects of these prompts; null where it does not hold."""


@dataclass(frozen=True, slots=True)
class TtftByTier:
    """TTFT by the outermost tier that served any of a prompt, as observed and as the model explains it."""

    tiers: tuple[TtftOf, ...]
    unknown: int
    """Requests of which no TTFT was recorded."""
    seconds_per_token: Mapping[str, float]
    """What one token costs by where it came from; empty where the model does not hold."""
    error_ratio: float | None
    """How far half of the requests are from what the model says, at most; null without a model."""
    absent_because: str | None
    """Why there is no expectation; null where there is one."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened to the tokens of one endpoint's requests in a span."""

    namespace: str
    endpoint: str
    start_unix_seconds: float
    end_unix_seconds: float
    history_start_unix_seconds: float
    """From here on requests were read, to fill the modelled tiers."""
    requests: int
    prompt_tokens: int
    tokens: Mapping[Origin, int]
    """Prompt tokens by where their KV values came from; they add up to the prompts."""
    completeness_ratio: float | None
    """Share of the request records that arrived; null where no source reports it."""
    misses: MissCauses
    ttft: TtftByTier
    prefixes: tuple[SharedPrefix, ...]
    """What most repeated prompts begin with, the most valuable first."""


def explain(
    evidence: Evidence, deployment: Deployment | None, who: tuple[str, str], span: TimeSpan
) -> Explanation:
    """Explain the requests of a span that the evidence ends with; what came before it warms the model.

    Without a deployment, tier sizes or bytes a token, what rests on them is absent with its reason.
    """
    window = evidence.window
    first = int(np.searchsorted(window.at_unix_seconds, span.start_unix_seconds))
    seen = _from(window, first)
    totals = seen.totals()
    model = ttft_model(window, first)
    return Explanation(
        namespace=who[0],
        endpoint=who[1],
        start_unix_seconds=span.start_unix_seconds,
        end_unix_seconds=span.end_unix_seconds,
        history_start_unix_seconds=window.span.start_unix_seconds,
        requests=seen.requests,
        prompt_tokens=totals.prompt,
        tokens={origin: totals.of(origin) for origin in Origin},
        completeness_ratio=completeness_ratio(evidence.coverage),
        misses=misses_of(evidence, deployment, first, model),
        ttft=_ttft(window, first, model),
        prefixes=shared_prefixes(seen, MOST_PREFIXES),
    )


def misses_of(
    evidence: Evidence, deployment: Deployment | None, first: int, model: TtftModel | str
) -> MissCauses:
    """Why tokens were computed, from request `first` on; earlier ones warm the modelled tiers."""
    window = evidence.window
    if window.requests == first:
        return MissCauses(None, (), "no request was served in this span")
    if deployment is None:
        return MissCauses(None, (), "no configuration of the endpoint is known, so its tiers' sizes are not")
    readings = read_tiers(evidence, deployment)
    lower = [tier for tier in LOWER_TIERS if deployment.tier(tier) is not None]
    chunk = chunk_tokens(evidence) or (None if lower else window.block_tokens)
    absent = _unmodelled(window, lower, readings, chunk)
    if absent is not None or chunk is None:
        return MissCauses(None, (), absent)
    study = study_of(evidence, deployment, readings, chunk)
    ways = named_by(evidence.beginnings, window.engines)
    misses = miss_causes(window, chunk, _units(study), first=first, named_by=ways)
    causes = {cause: int(tokens[first:].sum()) for cause, tokens in misses.tokens.items()}
    seconds = _seconds(causes, model)
    money, currency = _money(seconds, deployment)
    return MissCauses(causes, tuple(MoreRoom(*room) for room in misses.room), None, seconds, money, currency)


def _seconds(causes: Mapping[Cause, int], model: TtftModel | str) -> dict[Cause, float] | None:
    """What a computed token costs beyond the fixed part, times the tokens."""
    if isinstance(model, str) or "computed" not in model.priced:
        return None
    each = float(model.fit.coefficients[1 + model.priced.index("computed")])
    return {cause: tokens * each for cause, tokens in causes.items()}


def _money(
    seconds: Mapping[Cause, float] | None, deployment: Deployment
) -> tuple[dict[Cause, float] | None, str | None]:
    """What a replica's seconds cost at the price of its instance, and in what; None where not known."""
    instance, prices = instance_of(deployment), deployment.objective.prices
    if seconds is None or instance is None or prices is None:
        return None, None
    each = instance.price_per_hour / instance.replicas / SECONDS_AN_HOUR
    return {cause: took * each for cause, took in seconds.items()}, prices.currency


def _unmodelled(
    window: RequestWindow, lower: list[Tier], readings: Mapping[Tier, TierReading], chunk: int | None
) -> str | None:
    """Why the tiers cannot be modelled; None where they can."""
    if chunk is None:
        return "no record or reading tells the chunk size of the cache server"
    if chunk % max(window.block_tokens, 1):
        return f"chunks of {chunk} tokens are no whole number of blocks of {window.block_tokens}"
    l0 = readings.get(Tier.L0)
    if l0 is None or l0.capacity_tokens is None:
        return "how many tokens L0 has room for is not known"
    unknown = [tier.value.upper() for tier in lower if readings[tier].bytes_per_token is None]
    return f"the bytes a token takes in {' and '.join(unknown)} are not known" if unknown else None


def _units(study: Study) -> TierUnits:
    units = {tier: study.units(tier, size) for tier, size in study.sizes_today().items()}
    l0 = study.readings[Tier.L0]
    assert l0.capacity_tokens is not None
    units[Tier.L0] = max(int(l0.capacity_tokens // study.window.block_tokens), 1)
    known = (reading.bytes_per_token for reading in study.readings.values())
    pool = study.deployment.wiring.pool if study.deployment.wiring else None
    expires = pool is not None and pool.ttl_action == "delete"
    freed_in_rounds = study.l1_frees_in_rounds and Tier.L1 in units
    return TierUnits(
        units,
        next((size for size in known if size is not None), 0.0),
        pool.ttl_seconds if pool is not None and expires else None,
        {Tier.L1: int(units[Tier.L1] * SERVER_LEAST_RATIO)} if freed_in_rounds else {},
    )


def _ttft(window: RequestWindow, first: int, model: TtftModel | str) -> TtftByTier:
    told = np.flatnonzero(np.isfinite(window.ttft_seconds[first:])) + first
    if isinstance(model, str):
        expected, per_token, error, reason = np.zeros(0), {}, None, model
        modelled = np.zeros(0, dtype=np.int64)
    else:
        modelled = model.requests
        expected = model.queue_seconds + (model.ttft_seconds - model.queue_seconds) / model.noise
        per_token = dict(zip(model.priced, model.fit.coefficients[1:].tolist(), strict=True))
        error, reason = model.fit.error_ratio, None
    origins = _served_from(window)
    tiers = tuple(
        _one(origin, window.ttft_seconds[told[origins[told] == code]], expected[origins[modelled] == code])
        for code, origin in enumerate((*OUTERMOST_FIRST, Origin.COMPUTED))
        if (origins[told] == code).any()
    )
    unknown = window.requests - first - len(told)
    return TtftByTier(tiers[::-1], unknown, per_token, error, reason)


def _one(origin: Origin, seconds: FloatArray, expected: FloatArray) -> TtftOf:
    p50, p90 = (float(found) for found in np.quantile(seconds, (0.5, 0.9)))
    return TtftOf(origin, len(seconds), p50, p90, float(np.median(expected)) if len(expected) else None)


def _served_from(window: RequestWindow) -> Int64Array:
    """Index into OUTERMOST_FIRST of who served any of each prompt; its length where nobody did: (n,)."""
    parts = (window.external, window.l2, window.l1, window.l0)
    found = np.full(window.requests, len(parts), dtype=np.int64)
    for code in range(len(parts) - 1, -1, -1):
        found[parts[code] > 0] = code
    return found


def _from(window: RequestWindow, first: int) -> RequestWindow:
    """The window without its first requests."""
    start = window.offsets[first] if len(window.offsets) else 0
    arrays = (
        "at_unix_seconds", "engine", "session", "prompt", "l0", "l1", "l2", "external", "computed",
        "queue_seconds", "load_seconds", "ttft_seconds",
    )  # fmt: skip
    return replace(
        window,
        offsets=window.offsets[first:] - start,
        block_hashes=window.block_hashes[start:],
        **{name: getattr(window, name)[first:] for name in arrays},
    )
