"""Does L2 pay: what a token costs in TTFT when it is loaded from the pool, against computing it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tierscope.advice.document import Apply, ApplyFormat, Finding, FindingKind
from tierscope.advice.resource import switch_l2_patch
from tierscope.advice.sizing.latency import TtftModel
from tierscope.advice.study import Study
from tierscope.analytics.ttft_model import ORIGINS, break_even_bytes_per_second, model_ttft
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes


@dataclass(frozen=True, slots=True)
class SlowPool:
    """An L2 whose loads take longer than computing, beyond what noise explains. Seconds are of one token."""

    computed_seconds: float
    loaded_seconds: float


def slow_pool(study: Study, ttft: TtftModel | str) -> SlowPool | None:
    """Compare the costs of a token; None where L2 pays, or where its cost is not known well enough."""
    window = study.window
    if study.deployment.tier(Tier.L2) is None or isinstance(ttft, str) or ttft.merged:
        return None
    rows = ttft.requests
    tokens = np.column_stack((window.computed[rows], window.l1[rows], window.l2[rows])).astype(np.float64)
    median = ttft.fit if len(ttft.priced) == len(ORIGINS) else None
    model = model_ttft(tokens, ttft.ttft_seconds, ttft.queue_seconds, median)
    computed, l2 = 1 + ORIGINS.index("computed"), 1 + ORIGINS.index("l2")
    if model.problems or model.low[l2] <= model.high[computed]:
        return None
    return SlowPool(*(float(model.median.coefficients[place]) for place in (computed, l2)))


def recompute_findings(study: Study, pool: SlowPool | None) -> Iterator[Finding]:
    """Yield `l2_slower_than_recompute` with the rate that L2 would have to load at."""
    if pool is None:
        return
    per_token = study.readings[Tier.L2].bytes_per_token
    rates = ""
    if per_token is not None and pool.computed_seconds > 0:
        needed = break_even_bytes_per_second(per_token, pool.computed_seconds)
        rates = (
            f" It loads {format_bytes(per_token / pool.loaded_seconds)}/s and pays from "
            f"{format_bytes(needed or 0.0)}/s on."
        )
    wiring = study.deployment.wiring
    steps = () if wiring is None else (Apply(SWITCH_OFF, ApplyFormat.JSON_PATCH, switch_l2_patch(on=False)),)
    yield Finding(
        FindingKind.L2_SLOWER_THAN_RECOMPUTE,
        Severity.WARNING,
        "L2 is slower than computing, so its hits make TTFT worse",
        f"A token takes {pool.loaded_seconds * 1e6:.0f} us from L2 and {pool.computed_seconds * 1e6:.0f} us "
        f"to compute.{rates}",
        "look for what slows the pool (network, disks, FUSE); until then switch L2 off, or keep it for what "
        "a restart would lose. No larger L2 is advised",
        steps,
    )


SWITCH_OFF = (
    "Switch L2 off. Operators before 3.3 do not honour an explicit false: take LMCACHE_REMOTE_URL out of the "
    "pods instead. The engine pods restart and start with an empty L0 and L1."
)
