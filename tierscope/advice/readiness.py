"""What is still missing before anything can be advised, and how long it would take to come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierscope.advice.document import Missing
from tierscope.advice.readings import TierReading
from tierscope.advice.sizing.one_tier import TierSizing
from tierscope.advice.thresholds import (
    MIN_BLOCK_ACCESSES,
    MIN_COMPLETENESS_RATIO,
    MIN_REQUESTS,
    MIN_WARM_RATIO,
    MOST_HOLDOUT_ERROR,
)
from tierscope.domain.deployment import Deployment
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow

SIZED_TIERS = (Tier.L1, Tier.L2)
"""The tiers whose size can be changed without touching the engine; upper first."""


def missing_before_modelling(
    window: RequestWindow,
    deployment: Deployment,
    readings: Mapping[Tier, TierReading],
    chunk_tokens: int | None,
    completeness: float | None,
) -> Iterator[Missing]:
    """Yield everything that stands in the way of building the model."""
    seconds = recorded_seconds(window)
    yield from _too_few("requests in the window", window.requests, MIN_REQUESTS, seconds)
    yield from _too_few("block accesses in the window", window.accesses, MIN_BLOCK_ACCESSES, seconds)
    yield from _incomplete(completeness, window.span.seconds)
    sized = [tier for tier in SIZED_TIERS if deployment.tier(tier) is not None]
    if not sized:
        yield Missing("a tier L1 or L2 in the deployment's configuration", None, None, None)
    if chunk_tokens is None:
        yield Missing("the chunk size of the cache server (no record or reading tells it)", None, None, None)
    elif chunk_tokens % max(window.block_tokens, 1) and window.requests:
        yield Missing(
            f"a chunk size that is a whole number of blocks: {chunk_tokens} tokens are not for blocks of "
            f"{window.block_tokens}",
            None,
            None,
            None,
        )
    for tier in sized:
        if readings[tier].bytes_per_token is None:
            yield Missing(
                f"the bytes a token takes in {tier.value.upper()}: set bytes_per_token of the deployment, or "
                "let the cache server's usage be read (beside servers of other models its lookups, too)",
                None,
                None,
                None,
            )


def too_cold(sizing: TierSizing, window: RequestWindow) -> Iterator[Missing]:
    """Yield a tier whose advised size the warm-up had not filled."""
    have = sizing.warm_ratio
    if have < MIN_WARM_RATIO:
        wait = recorded_seconds(window) * (MIN_WARM_RATIO / have - 1) if have else None
        what = f"share of the advised {sizing.task.tier.value.upper()} that was filled before measuring began"
        yield Missing(what, have, MIN_WARM_RATIO, wait)


def too_uncertain(sizing: TierSizing, window: RequestWindow) -> Iterator[Missing]:
    """Yield a tier whose hit ratio at the advised size the past does not predict."""
    if sizing.holdout_error > MOST_HOLDOUT_ERROR:
        what = f"hold-out error of the hit ratio at the advised {sizing.task.tier.value.upper()}, at most"
        yield Missing(what, sizing.holdout_error, MOST_HOLDOUT_ERROR, recorded_seconds(window))


def recorded_seconds(window: RequestWindow) -> float:
    """Time from the first to the last record; 0 with fewer than two."""
    at = window.at_unix_seconds
    return float(at[-1] - at[0]) if len(at) > 1 else 0.0


def _too_few(what: str, have: int, need: int, seconds: float) -> Iterator[Missing]:
    if have < need:
        wait = seconds * (need - have) / have if have and seconds else None
        yield Missing(what, have, need, wait)


def _incomplete(completeness: float | None, window_seconds: float) -> Iterator[Missing]:
    what = "share of the request records that arrived"
    if completeness is None:
        yield Missing(f"{what}: no source reports it", None, MIN_COMPLETENESS_RATIO, None)
    elif completeness < MIN_COMPLETENESS_RATIO:
        yield Missing(what, completeness, MIN_COMPLETENESS_RATIO, window_seconds)
