"""Fifty drawn deployments of the testbed: advice followed, and what came held against what was foretold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.advised import Followed, drawn, followed
from tests.long_sample import SAMPLED
from tierscope.advice.predictions import Estimate

pytestmark = pytest.mark.long

RUNS, FIRST_SEED = (2, 4) if SAMPLED else (50, 0)
"""A sample begins where a mean TTFT is told and stays below the knee: else nothing would be judged."""
MOST_DRAWN = 40 * RUNS
"""Deployments, of which so few get advice that this says something by itself."""
LEAST_HELD = 0.9
MOST_TTFT_ERROR = 0.15
KNEE_WAITING_SHARE = 0.2
"""Of the mean TTFT: where requests wait longer for a place in an engine, queues grow faster than traffic."""


def holds(estimate: Estimate, came: float) -> bool:
    return estimate.low <= came <= estimate.high


def below_the_knee(run: Followed) -> bool:
    return max(run.before.waiting_share, run.after.waiting_share) <= KNEE_WAITING_SHARE


def runs() -> Iterator[tuple[int, Followed]]:
    """The first deployments drawn whose advice is to change something."""
    found = 0
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_DRAWN):
        one = followed(drawn(seed))
        if isinstance(one, Followed):
            yield seed, one
            found += 1
        if found == RUNS:
            return


def told(seed: int, run: Followed) -> str:
    """A row of the table."""
    total, mean = run.predicted.hit_ratio.total, run.predicted.ttft_mean_seconds
    changes = ", ".join(
        f"{change.target} {_size(change.from_)} → {_size(change.to)}" for change in run.changes
    )
    share = f"{total.value:.1%} ({total.low:.1%} – {total.high:.1%}) | {run.after.total:.1%}"
    held = "in" if holds(total, run.after.total) else "**out**"
    time = "not told | " if mean is None else f"{1000 * mean.value:.0f} ms | "
    time += f"{1000 * run.after.mean:.0f} ms" + ("" if below_the_knee(run) else ", beyond the knee")
    return f"| {seed} | {changes} | {share} | {held} | {time} |"


def _size(value: float | str) -> str:
    return f"{value / 2**30:.4g} GiB" if isinstance(value, float) and value > 2**20 else f"{value}"


HEAD = "| seed | change | hit ratio foretold | came | | mean TTFT foretold | came |"


def test_hit_ratios_lie_in_their_intervals_and_the_mean_ttft_is_near():
    """At least nine of ten: all tiers together; and the mean TTFT within 15 %, below the knee."""
    held, near = [], []
    print(f"\n{HEAD}\n|{'---|' * 7}")
    for seed, run in runs():
        print(told(seed, run), flush=True)
        held.append(holds(run.predicted.hit_ratio.total, run.after.total))
        mean = run.predicted.ttft_mean_seconds
        if mean is not None and below_the_knee(run):
            near.append(abs(mean.value / run.after.mean - 1) <= MOST_TTFT_ERROR)

    print(f"hit ratio inside its interval: {sum(held)} of {len(held)}")
    print(f"mean TTFT within {MOST_TTFT_ERROR:.0%} below the knee: {sum(near)} of {len(near)}")
    assert len(held) == RUNS, f"of {MOST_DRAWN} deployments too few were advised to change something"
    assert near, "no run stayed below the knee and was told a mean TTFT"
    assert sum(held) >= LEAST_HELD * len(held)
    assert sum(near) >= LEAST_HELD * len(near)
