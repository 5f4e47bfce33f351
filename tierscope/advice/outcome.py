"""What a choice of sizes is expected to bring, written as parts of the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tierscope.advice.curves import Curve, Point
from tierscope.advice.document import Alternative, Change, ChangeKind
from tierscope.advice.learned import UNTRIED, Learned
from tierscope.advice.patches import apply_size, revert_if, risks_of
from tierscope.advice.predictions import Estimate, HitRatios, Predicted
from tierscope.advice.selfcheck import SelfCheck
from tierscope.advice.sizing.cost import cost_per_hour, instance_of, missing_prices
from tierscope.advice.sizing.engine import EngineStart
from tierscope.advice.sizing.engine_patches import ENGINE_TARGET, apply_engine, engine_arguments, engine_risks
from tierscope.advice.sizing.latency import Prediction, TtftModel
from tierscope.advice.sizing.one_tier import (
    SizeCurve,
    SizingTask,
    TierSizing,
    round_up_bytes,
    size_curve,
)
from tierscope.advice.study import Sizes, Study
from tierscope.advice.thresholds import ALTERNATIVE_TARGETS, GRID_SIZES, RESAMPLES, SEED
from tierscope.analytics.bootstrap import interval_of, resampled_ratios
from tierscope.domain.deployment import Deployment, Objective, ObjectiveKind
from tierscope.domain.split import Split
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes, format_seconds

LEAST = {
    Tier.L1: "it must hold one longest prompt and have room for what is on its way from L2",
    Tier.L2: "it is what the pool came to hold, and a full pool refuses new chunks instead of making room",
}
"""Why a tier is not advised smaller than its least size."""

LONGER_QUEUE = (
    "More tokens are computed than today, and queues are predicted as they were: under load they grow, and "
    "TTFT with them by more than is said here."
)
NO_PRICES = "Cost is not predicted: no prices are configured."
AIMS = {
    ObjectiveKind.HIT_RATIO_SHARE: "{target:.0%} of the hit ratio of unlimited sizes are asked for.",
    ObjectiveKind.HIT_RATIO: "A hit ratio of {target:.0%} is asked for, as cheaply as it can be had.",
    ObjectiveKind.LOWEST_TTFT: "The lowest TTFT {quantile} for {target:g} {currency} an hour is asked for.",
    ObjectiveKind.LOWEST_COST: "The lowest cost with a TTFT {quantile} of at most {seconds} is asked for.",
}


@dataclass(frozen=True, slots=True)
class Outlook:
    """A study with all that makes its predictions more or less sure. `widening` is in hit ratio."""

    study: Study
    today: Split
    sizings: Mapping[Tier, TierSizing]
    check: SelfCheck
    drift_widening: float
    ttft: TtftModel | str
    learned: Learned = UNTRIED

    def predicted(self, split: Split, cost: Estimate | None = None) -> Predicted:
        """What it brings if the tiers serve `split`, with intervals as wide as earlier outcomes make them."""
        ttft = self._latency(split)
        return self.learned.widened(Predicted(self._hit_ratios(split), ttft.p50, ttft.p90, cost, ttft.mean))

    def ttft_absent_because(self, split: Split) -> str | None:
        """Why TTFT is not predicted; None where it is."""
        return self.ttft if isinstance(self.ttft, str) else self.ttft.absent_because(split)

    def _hit_ratios(self, split: Split) -> HitRatios:
        total = split.l0 + split.l1 + split.l2
        measured = self.study.history.measure(split.l0, split.l1, split.l2, total)
        own_error = np.abs(measured.predicted - measured.observed)
        widen = np.maximum(own_error, self._tier_errors()) + self._disagreements() + self.drift_widening
        resampled = resampled_ratios(measured.slices, RESAMPLES, np.random.default_rng(SEED))
        value, interval = measured.slices.ratio, interval_of(resampled, widen)
        return HitRatios(
            *(Estimate(float(value[i]), float(interval.low[i]), float(interval.high[i])) for i in range(4))
        )

    def _latency(self, split: Split) -> Prediction:
        if isinstance(self.ttft, str):
            return Prediction(None, None, None, self.ttft)
        return self.ttft.predict(self.today, split, np.random.default_rng(SEED))

    def _tier_errors(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Hold-out error of l0, l1, l2 and their sum, from the curves of the sized tiers."""
        l1, l2 = (
            self.sizings[tier].curve.measured.holdout_mae if tier in self.sizings else 0.0
            for tier in (Tier.L1, Tier.L2)
        )
        return np.array([0.0, l1, l2, max(l1, l2)])

    def _disagreements(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        l0, l1, l2 = (self.check.widening(tier) for tier in Tier)
        return np.array([l0, l1, l2, l2])


def change_for(sizing: TierSizing, outlook: Outlook, before: Sizes, after: Sizes) -> Change:
    """Write one change of size: what it brings over the sizes `before` it, why, how, and when to undo it."""
    tier, deployment = sizing.task.tier, outlook.study.deployment
    split = outlook.study.split(after)
    predicted = outlook.predicted(split, cost_per_hour(deployment, after))
    from_bytes, to_bytes = before[tier], after[tier]
    return Change(
        id=f"tier_size:{tier.value}",
        kind=ChangeKind.TIER_SIZE,
        target=tier.value,
        from_=from_bytes,
        to=to_bytes,
        unit="bytes",
        predicted=predicted,
        why=_why(
            sizing, outlook.ttft_absent_because(split), deployment, cost_text(deployment, before, after)
        ),
        risks=(
            *risks_of(tier, deployment, from_bytes, to_bytes),
            *((LONGER_QUEUE,) if split.computed.sum() > outlook.study.split(before).computed.sum() else ()),
        ),
        apply=apply_size(tier, deployment, from_bytes, to_bytes),
        revert_if=revert_if(tier, deployment, predicted.hit_ratio.total, predicted.ttft_p90_seconds),
    )


def engine_change(outlook: Outlook, start: EngineStart) -> Change:
    """Write the change of the engine's start: what it brings at the sizes of today, and how it is done."""
    deployment, sizes = outlook.study.deployment, outlook.study.sizes_today()
    then = replace(outlook, study=start.of(outlook.study))
    split = then.study.split(sizes)
    predicted = then.predicted(split, cost_per_hour(deployment, sizes))
    tokens = (start.l0_blocks or 0) * outlook.study.window.block_tokens
    return Change(
        id="config:engine",
        kind=ChangeKind.CONFIG,
        target=ENGINE_TARGET,
        from_=engine_arguments(deployment, start.arguments),
        to=" ".join(f"{name}={value}" for name, value in start.arguments.items()),
        unit="arguments",
        predicted=predicted,
        why=f"{aim_text(deployment.objective)} Each engine's L0 then holds {tokens:,} tokens.",
        risks=engine_risks(start.arguments),
        apply=apply_engine(deployment, start.arguments),
        revert_if=revert_if(Tier.L0, deployment, predicted.hit_ratio.total, predicted.ttft_p90_seconds),
    )


def aim_text(objective: Objective) -> str:
    """What the owner asks for, in a sentence."""
    return AIMS[objective.kind].format(
        target=objective.target,
        quantile=objective.ttft.value,
        seconds=format_seconds(objective.target),
        currency=objective.prices.currency if objective.prices else "",
    )


def cost_text(deployment: Deployment, before: Sizes, after: Sizes) -> str:
    """What an hour costs then, and what it costs now; or why that is not told."""
    now, then = cost_per_hour(deployment, before), cost_per_hour(deployment, after)
    prices = deployment.objective.prices
    if now is None or then is None or prices is None:
        return (
            NO_PRICES
            if prices is None
            else f"Cost is not predicted: {', '.join(missing_prices(deployment))}."
        )
    whole = "" if instance_of(deployment) else " for L1 and L2 alone, as the instances have no price here"
    return f"It costs {then.value:.4g} {prices.currency} an hour instead of {now.value:.4g}{whole}."


def _why(sizing: TierSizing, no_ttft: str | None, deployment: Deployment, cost: str) -> str:
    task = sizing.task
    served = "L0 and L1" if task.tier is Tier.L1 else "all tiers"
    today, then = sizing.ratio_at(task.current_bytes), sizing.ratio_at(sizing.chosen_bytes)
    unlimited = float(sizing.curve.ratio[-1])
    sizes = f"With {format_bytes(sizing.chosen_bytes)} instead of {format_bytes(task.current_bytes)}"
    gain = f"would have served {then:.1%} of prompt tokens instead of {today:.1%}"
    ends = f"{format_bytes(sizing.wanted_low_bytes)} and {format_bytes(sizing.wanted_high_bytes)}"
    sentences = [f"{sizes}, {served} {gain}."]
    if deployment.objective.kind is ObjectiveKind.HIT_RATIO_SHARE:
        sentences += [
            f"An unlimited size would give {unlimited:.1%}, and {task.target:.0%} of that is asked for.",
            f"The size that gives it lies between {ends}.",
        ]
    else:
        sentences += [f"An unlimited size would give {unlimited:.1%}.", aim_text(deployment.objective)]
    if sizing.floored:
        sentences.append(f"Less than {format_bytes(task.least_bytes)} is not advised: {LEAST[task.tier]}.")
    if sizing.limited:
        sentences.append(f"The limit keeps it from the {format_bytes(sizing.wanted_bytes)} that would do.")
    if no_ttft is not None:
        sentences.append(f"TTFT is not predicted: {no_ttft}.")
    return " ".join([*sentences, cost])


def curve_of(sizing: TierSizing, advised: bool) -> Curve:
    """The curve of a sized tier with today's point and, where a change is advised, the advised one."""
    task = sizing.task
    points = [Point(size, sizing.ratio_at(size)) for size in (task.current_bytes, sizing.chosen_bytes)]
    return _curve(sizing.curve, task.bytes_per_unit, points[0], points[1] if advised else None)


def l0_curve(study: Study) -> Curve | None:
    """The curve of L0 alone; None where the bytes of its blocks are not known."""
    reading = study.readings.get(Tier.L0)
    if reading is None or reading.bytes_per_token is None or reading.capacity_bytes is None:
        return None
    base = np.zeros_like(study.window.prompt)
    per_block = study.bytes_per_unit(Tier.L0)
    task = SizingTask(Tier.L0, study.streams.l0, base, per_block, reading.capacity_bytes, None, 0.0, 1.0)
    curve = size_curve(task, study.history, _log_sizes(task))
    today = Point(reading.capacity_bytes, curve.at(task.units(reading.capacity_bytes)))
    return _curve(curve, per_block, today, None)


def _curve(curve: SizeCurve, per_unit: float, current: Point, recommended: Point | None) -> Curve:
    return Curve(
        tuple(float(units * per_unit) for units in curve.capacities_units),
        tuple(float(ratio) for ratio in curve.ratio),
        current,
        recommended,
    )


def _log_sizes(task: SizingTask) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    most = max(int(task.stream.footprint_units().max(initial=0)), 1)
    longest = min(max(task.stream.longest_units(), 1), most)
    return np.unique(np.geomspace(longest, most, GRID_SIZES).round().astype(np.int64))


def alternatives(outlook: Outlook) -> tuple[Alternative, ...]:
    """What other targets would take: ascending in size and in hit ratio, none dominated by another."""
    found: list[Alternative] = []
    asked = {sizing.task.target for sizing in outlook.sizings.values()}
    for target in sorted({*ALTERNATIVE_TARGETS, *asked}):
        sizes = _sizes_for(target, outlook)
        split = outlook.study.split(sizes)
        then = outlook.predicted(split, cost_per_hour(outlook.study.deployment, sizes))
        ratio, ttft = then.hit_ratio.total, (then.ttft_p50_seconds, then.ttft_p90_seconds)
        if not found or (ratio.value > found[-1].hit_ratio.value and sizes != found[-1].capacity_bytes):
            found.append(Alternative(target, sizes, {}, ratio, *ttft, then.cost_per_hour, is_knee=False))
    return tuple(found)


def _sizes_for(target: float, outlook: Outlook) -> Sizes:
    """Sizes that meet another target, tier by tier, at the resolution of the curves."""
    study, sizes = outlook.study, dict[Tier, float]()
    base = study.l0_tokens
    for tier, sizing in outlook.sizings.items():
        task, curve = sizing.task, sizing.curve
        if target != task.target and tier is Tier.L2 and Tier.L1 in sizes:
            task = replace(task, base=base, target=target)
            curve = size_curve(task, study.history, _log_sizes(task))
        wanted = max(curve.smallest(target), task.least_units)
        size = round_up_bytes(wanted * task.bytes_per_unit)
        limit = sizing.task.limit_bytes
        sizes[tier] = size if limit is None else min(size, limit)
        base = study.history.over(base, study.depth_tokens(tier, sizes[tier]))
    return sizes


def sizes_of(sizings: Sequence[TierSizing], today: Sizes) -> Sizes:
    """Today's sizes with those of `sizings` put in."""
    return {**today, **{sizing.task.tier: sizing.chosen_bytes for sizing in sizings}}
