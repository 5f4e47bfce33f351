"""Instance types compared by what the endpoint costs on each at the same TTFT, where figures are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tierscope.advice.document import InstanceChoice
from tierscope.advice.outcome import Outlook
from tierscope.advice.sizing.choice import choose
from tierscope.advice.sizing.cost import cost_per_hour, instance_of
from tierscope.advice.sizing.engine import AS_IT_IS
from tierscope.advice.sizing.joint import joint_of
from tierscope.advice.sizing.latency import TtftModel
from tierscope.advice.sizing.one_tier import SizingTask
from tierscope.domain.deployment import Deployment, ObjectiveKind
from tierscope.domain.prices import InstanceFigures
from tierscope.domain.tiers import Tier

SPEEDS = {
    "computed": "prefill_tokens_per_second",
    "L1": "l1_tokens_per_second",
    "L2": "l2_tokens_per_second",
}
"""Which figure tells how fast tokens of an origin are; origins as the TTFT model names them."""
MERGED = "L1 or L2"


def compared(outlook: Outlook, today_seconds: float | None) -> Iterator[InstanceChoice]:
    """Yield the endpoint's own type and every other with figures, and those it may run on without any.

    Speeds enter as ratios of two types' figures, so that what both leave out cancels. The same number of
    replicas is taken everywhere, and queues as they were. `today_seconds` is the TTFT to compare at where
    the objective names none.
    """
    deployment = outlook.study.deployment
    prices, wiring = deployment.objective.prices, deployment.wiring
    if prices is None or not prices.instances or wiring is None:
        return
    current = instance_of(deployment)
    objective = deployment.objective
    target = objective.target if objective.kind is ObjectiveKind.LOWEST_COST else today_seconds
    for name in dict.fromkeys((*wiring.instance_types, *(one.name for one in prices.instances))):
        figures = prices.instance(name)
        missing = tuple(_missing(outlook, current, figures, target))
        if figures is None or current is None or target is None or missing:
            is_current = current is not None and name == current.name
            yield InstanceChoice(name, is_current, target, None, {}, None, None, None, missing)
        else:
            yield _on(_Move(outlook, current, figures), target)


def _missing(
    outlook: Outlook, current: InstanceFigures | None, figures: InstanceFigures | None, target: float | None
) -> Iterator[str]:
    """Yield what a comparison lacks: of the endpoint itself, and of the type it would move to."""
    if figures is None:
        yield "figures under objective.prices.instances"
        return
    if current is None:
        yield "figures of the endpoint's own instance type"
    if isinstance(outlook.ttft, str):
        yield f"a model of TTFT: {outlook.ttft}"
    elif target is None:
        yield "a TTFT to compare at"
    elif current is not None and figures.name != current.name:
        yield from _missing_there(outlook, outlook.ttft, current, figures)


def _missing_there(
    outlook: Outlook, ttft: TtftModel, current: InstanceFigures, figures: InstanceFigures
) -> Iterator[str]:
    if figures.l0_bytes is None:
        yield "l0_bytes"
    if outlook.study.deployment.tier(Tier.L1) is not None and figures.host_limit_bytes is None:
        yield "host_limit_bytes"
    for field in _fields(ttft):
        for one in (current, figures):
            if getattr(one, field) is None:
                yield f"{field} of {one.name}"


def _fields(ttft: TtftModel) -> Iterator[str]:
    """The figures that re-pricing needs: one for each origin that costs something."""
    for name in ttft.priced:
        yield from (SPEEDS["L1"], SPEEDS["L2"]) if name == MERGED else (SPEEDS[name],)


@dataclass(frozen=True, slots=True)
class _Move:
    """The endpoint put on another instance type."""

    outlook: Outlook
    current: InstanceFigures
    figures: InstanceFigures

    @property
    def stays(self) -> bool:
        return self.figures.name == self.current.name

    def deployment(self) -> Deployment:
        now = self.outlook.study.deployment
        assert now.wiring is not None
        return replace(now, wiring=replace(now.wiring, instance_types=(self.figures.name,)))

    def outlook_there(self) -> Outlook:
        """The same records re-priced and re-served there."""
        study, ttft = self.outlook.study, self.outlook.ttft
        assert isinstance(ttft, TtftModel)
        if self.stays:
            return self.outlook
        per_token = study.readings[Tier.L0].bytes_per_token if Tier.L0 in study.readings else None
        blocks = int((self.figures.l0_bytes or 0.0) / (per_token or np.inf) / study.window.block_tokens)
        moved = replace(study.restarted(max(blocks, 1), 1.0), deployment=self.deployment())
        return replace(self.outlook, study=moved, ttft=ttft.at_speeds(self._slower(ttft)))

    def tasks(self) -> dict[Tier, SizingTask]:
        """What is sized, with the memory that is there."""
        tasks = {tier: sizing.task for tier, sizing in self.outlook.sizings.items()}
        if not self.stays and Tier.L1 in tasks:
            tasks[Tier.L1] = replace(tasks[Tier.L1], limit_bytes=self.figures.host_limit_bytes)
        return tasks

    def _slower(self, ttft: TtftModel) -> list[float]:
        """How many times as long a token of each priced origin takes there."""
        return [
            max(getattr(self.current, SPEEDS[one]) / getattr(self.figures, SPEEDS[one]) for one in origins)
            for origins in (("L1", "L2") if name == MERGED else (name,) for name in ttft.priced)
        ]


def _on(move: _Move, target: float) -> InstanceChoice:
    there = move.outlook_there()
    study = there.study
    objective = replace(study.deployment.objective, kind=ObjectiveKind.LOWEST_COST, target=target)
    study = replace(study, deployment=replace(study.deployment, objective=objective))
    joint = joint_of(study, there.today, there.ttft, objective.ttft.share)
    choice = choose(joint, move.tasks(), [AS_IT_IS])
    best = choice.chosen or choice.nearest
    predicted = there.predicted(study.split(best.sizes), cost_per_hour(study.deployment, best.sizes))
    return InstanceChoice(
        instance_type=move.figures.name,
        is_current=move.stays,
        ttft_target_seconds=target,
        meets_target=choice.chosen is not None,
        capacity_bytes=dict(best.sizes),
        ttft_p50_seconds=predicted.ttft_p50_seconds,
        ttft_p90_seconds=predicted.ttft_p90_seconds,
        cost_per_hour=predicted.cost_per_hour,
        missing=(),
    )
