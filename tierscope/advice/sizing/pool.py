"""Does L2 evict at all: the pool's own readings set against what it should have served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tierscope.advice.document import Finding, FindingKind
from tierscope.advice.thresholds import (
    FULL_TIER_RATIO,
    MIN_FULL_REQUESTS,
    MIN_FULL_SAMPLES,
    MODEL_ALLOWANCE,
)
from tierscope.domain.events import TierSample
from tierscope.domain.severity import Severity
from tierscope.domain.split import Split
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes
from tierscope.domain.window import RequestWindow


def eviction_findings(
    samples: Iterable[TierSample], window: RequestWindow, modelled: Split
) -> Iterator[Finding]:
    """Yield `l2_never_evicts` only where both signs are there.

    The pool has been full without its usage ever falling, and since then requests were served clearly
    less from cache than a pool that makes room would have served them.
    """
    pool = sorted(
        (s for s in samples if s.tier is Tier.L2 and s.used_bytes is not None and s.capacity_bytes),
        key=lambda sample: sample.at_unix_seconds,
    )
    full = _full_at_the_end(pool)
    if len(full) < MIN_FULL_SAMPLES:
        return
    since = full[0].at_unix_seconds
    first = int(np.searchsorted(window.at_unix_seconds, since))
    if window.requests - first < MIN_FULL_REQUESTS:
        return
    total = int(window.prompt[first:].sum())
    observed = 1 - int(window.computed[first:].sum()) / total
    expected = 1 - int(modelled.computed[first:].sum()) / total
    if expected - observed <= MODEL_ALLOWANCE:
        return
    yield Finding(
        FindingKind.L2_NEVER_EVICTS,
        Severity.CRITICAL,
        "The L2 pool is full and makes no room",
        f"{len(full)} readings in a row show {format_bytes(full[-1].used_bytes or 0)} of "
        f"{format_bytes(full[-1].capacity_bytes or 0)} used, never less than before. Since then "
        f"{observed:.1%} of prompt tokens came from cache; with eviction it would be {expected:.1%}.",
        "Curvine removes nothing by default: set client.ttl-action=delete and a finite client.ttl-ms in the "
        "StorageClass for new files, and delete old chunks once by hand",
    )


def _full_at_the_end(pool: list[TierSample]) -> list[TierSample]:
    """The last readings in a row that show a full pool whose usage did not fall, oldest first."""
    run: list[TierSample] = []
    for sample in reversed(pool):
        used, capacity = sample.used_bytes or 0.0, sample.capacity_bytes or 0.0
        fell_after = bool(run) and used > (run[-1].used_bytes or 0.0)
        if used < FULL_TIER_RATIO * capacity or fell_after:
            break
        run.append(sample)
    return run[::-1]
