"""More replicas, where requests wait for an engine whatever the tiers hold and however they are routed."""

from __future__ import annotations

import numpy as np
from pydantic import JsonValue

from tierscope.advice.document import Apply, ApplyFormat, Change, ChangeKind
from tierscope.advice.patches import ROLLOUT
from tierscope.advice.routing.patches import routing_revert_if
from tierscope.advice.routing.study import Comparison, Judge, Outcome
from tierscope.advice.thresholds import MOST_REPLICAS_ADDED, MOST_WAITING_SHARE

REPLICAS_PATH = "/spec/replicas"
RISKS = (
    "New replicas begin with an empty L0 and L1, and take over a part of the others' prompts.",
    "With an autoScalingSpec the autoscaler's count holds, not this one: set its minReplicaCount instead.",
    ROLLOUT,
)


def replicas_change(compared: Comparison) -> Change | None:
    """The fewest replicas more with which requests no longer wait most of their TTFT; None where they do not.

    To be asked where neither a size nor a policy is to be changed.
    """
    fleet = compared.fleet
    if compared.problem is not None or fleet.calibration.error_ratio is None or not _wait(compared):
        return None
    judge, today = Judge(fleet, compared.today.option, compared.learned), fleet.deployment.replicas
    for count in range(today + 1, today + MOST_REPLICAS_ADDED + 1):
        then = judge.outcome(compared.today.option, count)
        if then.is_better and then.waiting_share < MOST_WAITING_SHARE:
            return _change(compared, then)
    return None


def _wait(compared: Comparison) -> bool:
    """Whether the recorded requests spent most of their TTFT waiting for a place in an engine."""
    sample = compared.fleet.sample
    queue, ttft = sample.of(sample.window.queue_seconds), sample.of(sample.window.ttft_seconds)
    told = np.isfinite(queue) & np.isfinite(ttft)
    return bool(told.any() and queue[told].sum() > MOST_WAITING_SHARE * ttft[told].sum())


def _change(compared: Comparison, then: Outcome) -> Change:
    deployment = compared.fleet.deployment
    ratio = then.ttft_ratio
    operations: list[JsonValue] = [{"op": "add", "path": REPLICAS_PATH, "value": then.replicas}]
    return Change(
        id="replicas",
        kind=ChangeKind.REPLICAS,
        target="replicas",
        from_=float(deployment.replicas),
        to=float(then.replicas),
        unit="replicas",
        predicted=then.predicted,
        why=(
            f"Requests spend {compared.today.waiting_share:.0%} of their TTFT waiting for a place in an "
            "engine, and neither a size nor another way to route is better beyond its interval. With "
            f"{then.replicas} replicas the mean TTFT is {ratio.value:.0%} of today's ({ratio.low:.0%} to "
            f"{ratio.high:.0%}), and {then.waiting_share:.0%} of it is waiting."
        ),
        risks=RISKS,
        apply=(
            Apply(
                f"Patch the endpoint {deployment.endpoint} in namespace {deployment.namespace}: "
                f"spec.replicas {then.replicas}. Each replica needs a node of its own with its GPUs free.",
                ApplyFormat.JSON_PATCH,
                operations,
            ),
        ),
        revert_if=routing_revert_if(deployment, then),
    )
