"""What L2's own readings say: whether it evicts at all, and what it must have room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from tierscope.advice.document import Finding, FindingKind
from tierscope.advice.thresholds import (
    FULL_TIER_RATIO,
    MIN_FULL_REQUESTS,
    MIN_FULL_SAMPLES,
    MODEL_ALLOWANCE,
    POOL_ROOM,
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
    """Yield `l2_never_evicts` of each pool, only where both signs are there.

    The pool has been full without its usage ever falling, and since then requests were served clearly
    less from cache than a pool that makes room would have served them. Of several pools each is named.
    """
    known = [s for s in samples if s.tier is Tier.L2 and s.used_bytes is not None and s.capacity_bytes]
    known.sort(key=lambda sample: (sample.holder, sample.at_unix_seconds))
    pools = {holder: list(of) for holder, of in groupby(known, key=lambda sample: sample.holder)}
    for holder, pool in pools.items():
        where = f" in {holder}" if len(pools) > 1 else ""
        yield from _findings_of(pool, where, window, modelled)


def _findings_of(
    pool: list[TierSample], where: str, window: RequestWindow, modelled: Split
) -> Iterator[Finding]:
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
        f"{format_bytes(full[-1].capacity_bytes or 0)} used{where}, never less than before. Since then "
        f"{observed:.1%} of prompt tokens came from cache; with eviction it would be {expected:.1%}.",
        "Curvine removes nothing by default: set client.ttl-action=delete and a finite client.ttl-ms in the "
        "StorageClass for new files, and delete old chunks once by hand",
    )


def least_held_bytes(samples: Iterable[TierSample], current_bytes: float) -> float:
    """What the pool must have room for, as it came to hold nearly that much: 0 without a reading.

    Where several pools may be the deployment's, none makes its own grow, and none that may be it is left
    with less than it holds.
    """
    held: dict[str, float] = {}
    for sample in samples:
        if sample.tier is Tier.L2 and sample.used_bytes is not None:
            held[sample.holder] = max(held.get(sample.holder, 0.0), sample.used_bytes)
    least = POOL_ROOM * max(held.values(), default=0.0)
    return least if len(held) < 2 else min(least, current_bytes)


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
