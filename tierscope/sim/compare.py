"""Routers side by side on one trace: what each hits, how unevenly it loads, and what clients feel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.trace import Trace
from tierscope.sim.routers import PICKING, PLACING
from tierscope.sim.serving import Fleet, Served, serve

EVERY_POLICY = (*PLACING, *PICKING)


@dataclass(frozen=True, slots=True)
class RouterResult:
    """One router's figures; `imbalance` is the busiest replica's prompt tokens over the mean: 1 is even.

    Judge by `mean_ttft_seconds`: with a shared pool all routers hit the same in total, and differ in where.
    """

    policy: RoutingPolicy
    l0_hit_ratio: float
    hit_ratio: float
    imbalance: float
    mean_ttft_seconds: float


def compare_routers(
    trace: Trace, fleet: Fleet, policies: Iterable[RoutingPolicy] = EVERY_POLICY
) -> tuple[RouterResult, ...]:
    """Serve the same arrivals through each router, the best mean TTFT first."""
    found = [
        _result(trace, policy, serve(trace, replace(fleet, policy=policy)), fleet.replicas)
        for policy in policies
    ]
    return tuple(sorted(found, key=lambda result: result.mean_ttft_seconds))


def imbalance(trace: Trace, served: Served, replicas: int) -> float:
    """Prompt tokens of the busiest replica over the mean; 1 where nothing was served."""
    placed = served.replica >= 0
    tokens = np.bincount(served.replica[placed], weights=trace.input_tokens[placed], minlength=replicas)
    return float(tokens.max() / tokens.mean()) if tokens.any() else 1.0


def _result(trace: Trace, policy: RoutingPolicy, served: Served, replicas: int) -> RouterResult:
    prompt = max(int(trace.input_tokens.sum()), 1)
    ttft = served.ttft_seconds[~np.isnan(served.ttft_seconds)]
    return RouterResult(
        policy=policy,
        l0_hit_ratio=float(served.split.l0.sum() / prompt),
        hit_ratio=float(1 - served.split.computed.sum() / prompt),
        imbalance=imbalance(trace, served, replicas),
        mean_ttft_seconds=float(ttft.mean()) if len(ttft) else float("inf"),
    )
