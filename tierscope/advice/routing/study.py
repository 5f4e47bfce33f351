"""Routers side by side on a deployment's own requests: hits, balance and TTFT, each with its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tierscope.advice.learned import UNTRIED, Learned
from tierscope.advice.predictions import Estimate, HitRatios, Predicted
from tierscope.advice.routing.model import RoutedFleet, fleet_of
from tierscope.advice.routing.options import Excluded, Option, options_of
from tierscope.advice.routing.sample import sample_of
from tierscope.advice.sizing.latency import holdout_shift
from tierscope.advice.thresholds import (
    LEAST_ROUTED_HIT_ERROR,
    MODEL_ALLOWANCE,
    MODEL_LARGEST_DISAGREEMENT,
    MOST_ROUTED_TTFT_ERROR,
    RESAMPLES,
    ROUTER_DRAWS,
    SEED,
    SLICES,
    SMALLEST_ROUTED_TTFT_GAIN,
)
from tierscope.analytics.bootstrap import (
    HIGH,
    LOW,
    interval_of,
    resampled_quantiles,
    slice_draws,
    slice_sums,
)
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.trace import FloatArray
from tierscope.domain.window import Evidence
from tierscope.sim.compare import imbalance
from tierscope.sim.serving import Served

CERTAIN = (RoutingPolicy.ROUNDROBIN,)
"""Policies that leave nothing to chance: one run tells all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way to route is expected to bring, with the replicas it needs.

    `ttft_ratio` is its mean TTFT over today's. TTFT in seconds is predicted only where some was recorded.
    """

    option: Option
    replicas: int
    predicted: Predicted
    ttft_ratio: Estimate
    imbalance: float
    waiting_share: float

    @property
    def is_better(self) -> bool:
        """Whether it beats today beyond its interval, and by enough to be worth a restart."""
        return self.ttft_ratio.high < 1.0 and self.ttft_ratio.value <= 1.0 - SMALLEST_ROUTED_TTFT_GAIN


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ways to route one deployment, the best mean TTFT first.

    `problem` says in words why none of them is advised; None where the model describes the deployment.
    """

    at_unix_seconds: float
    fleet: RoutedFleet
    today: Outcome
    others: tuple[Outcome, ...]
    excluded: tuple[Excluded, ...]
    problem: str | None
    learned: Learned

    @property
    def sampled_ratio(self) -> float:
        """Share of the window's requests that were served again."""
        sample = self.fleet.sample
        return len(sample.requests) / max(sample.window.requests, 1)


def compare(
    evidence: Evidence,
    deployment: Deployment,
    *,
    now_unix_seconds: float,
    learned: Learned = UNTRIED,
) -> Comparison | str:
    """Serve the newest recorded requests through every policy that can be used; why not, in words."""
    sample = sample_of(evidence.window, deployment.replicas)
    if len(sample.requests) - sample.first_measured < SLICES:
        return "too few requests were recorded"
    options = options_of(deployment, sample)
    if options is None:
        return "how requests are routed is not known: set routing of the deployment"
    fleet = fleet_of(evidence, deployment, sample)
    if isinstance(fleet, str):
        return fleet
    judge = Judge(fleet, options.today, learned)
    others = () if deployment.replicas < 2 else options.others
    outcomes = sorted((judge.outcome(one) for one in others), key=lambda one: one.ttft_ratio.value)
    return Comparison(
        now_unix_seconds,
        fleet,
        judge.outcome(options.today),
        tuple(outcomes),
        options.excluded,
        judge.problem,
        learned,
    )


class Judge:
    """Holds every way to route against today's, on the same arrivals, slices and draws."""

    def __init__(self, fleet: RoutedFleet, today: Option, learned: Learned) -> None:
        self._fleet = fleet
        self._learned = learned
        self._today = self._runs(today, fleet.deployment.replicas)
        recorded = fleet.recorded()
        self._hit_errors = _disagreement(fleet, recorded)
        self._allowance = min(fleet.calibration.allowance, 1.0)
        self._draws = slice_draws(SLICES, RESAMPLES, np.random.default_rng(SEED))

    @property
    def problem(self) -> str | None:
        """Why the model is not to be followed here."""
        off = float(self._hit_errors[3])
        if off > MODEL_LARGEST_DISAGREEMENT:
            return f"on the recorded placement the model's hit ratio is off by {off:.0%} of the prompt tokens"
        error = self._fleet.calibration.error_ratio
        if error is not None and error > MOST_ROUTED_TTFT_ERROR:
            return f"on the recorded placement the model's TTFT is off by {error:.0%}"
        return None

    def outcome(self, option: Option, replicas: int | None = None) -> Outcome:
        """Serve the sample that way; everything relative to today's runs."""
        count = replicas or self._fleet.deployment.replicas
        runs = self._runs(option, count)
        trace, first = self._fleet.sample.trace, self._fleet.sample.first_measured
        queued = np.concatenate([run.queue_seconds[first:] for run in runs])
        waited = np.concatenate([run.ttft_seconds[first:] for run in runs])
        ratio = self._ttft_ratio(runs)
        return Outcome(
            option=option,
            replicas=count,
            predicted=self._learned.widened(
                Predicted(
                    hit_ratio=self._hit_ratio(runs),
                    ttft_p50_seconds=self._seconds(runs, _quantile(0.5)),
                    ttft_p90_seconds=self._seconds(runs, _quantile(0.9)),
                    cost_per_hour=None,
                    ttft_mean_seconds=self._seconds(runs, _mean),
                )
            ),
            ttft_ratio=self._learned.ttft(ratio),
            imbalance=float(np.mean([imbalance(trace, run, count) for run in runs])),
            waiting_share=float(np.nansum(queued) / max(np.nansum(waited), 1e-9)),
        )

    def _runs(self, option: Option, replicas: int) -> list[Served]:
        numbers = range(1 if option.policy in CERTAIN else ROUTER_DRAWS)
        return [self._fleet.draw(option, number + 1, replicas) for number in numbers]

    def _hit_ratio(self, runs: list[Served]) -> HitRatios:
        sample = self._fleet.sample
        first, prompt = sample.first_measured, sample.trace.input_tokens[sample.first_measured :]
        resampled, values = [], []
        for run in runs:
            split = run.split
            tokens = np.column_stack((split.l0, split.l1, split.l2, split.l0 + split.l1 + split.l2))[first:]
            slices = slice_sums(tokens, prompt, SLICES)
            total = np.maximum(self._draws @ slices.total, 1.0)
            resampled.append(self._draws @ slices.hits / total[:, None])
            values.append(slices.ratio)
        interval = interval_of(np.concatenate(resampled), self._hit_errors)
        value = np.mean(values, axis=0)
        return HitRatios(
            *(
                Estimate(
                    float(value[i]),
                    float(min(interval.low[i], value[i])),
                    float(max(interval.high[i], value[i])),
                )
                for i in range(4)
            )
        )

    def _ttft_ratio(self, runs: list[Served]) -> Estimate:
        """Mean TTFT over today's."""
        change = self._change(runs, _mean)
        low, high = np.quantile(change.resampled, (LOW, HIGH))
        return _allowed(change.value, float(low), float(high), self._allowance)

    def _seconds(self, runs: list[Served], of: Statistic) -> Estimate | None:
        """The recorded figure, scaled by what the model says of the change; None where it says nothing.

        Both are resampled together. What the recorded TTFT itself moves by in the window is allowed for,
        where it is more than the model's own error.
        """
        recorded = self._fleet.sample.of(self._fleet.sample.window.ttft_seconds)
        recorded = recorded[np.isfinite(recorded)]
        if self._fleet.calibration.error_ratio is None or len(recorded) < SLICES:
            return None
        seen, change = of(recorded, self._draws), self._change(runs, of)
        shift = holdout_shift(recorded, lambda half: of(half, WHOLE).value)
        low, high = np.quantile(seen.resampled * change.resampled, (LOW, HIGH))
        allowance = max(self._allowance, shift)
        return _allowed(seen.value * change.value, float(low), float(high), allowance)

    def _change(self, runs: list[Served], of: Statistic) -> Figure:
        """A figure of the modelled TTFT over today's: resampled (pairs of draws, resamples).

        Every draw of a router is as likely as any other.
        """
        first = self._fleet.sample.first_measured
        then, now = (
            [of(run.ttft_seconds[first:], self._draws) for run in each] for each in (runs, self._today)
        )
        value = float(np.mean([one.value for one in then]) / np.mean([one.value for one in now]))
        return Figure(value, np.array([a.resampled / b.resampled for a in then for b in now]))


class Figure(NamedTuple):
    """One figure of many times, and what it is in each resampling of their slices."""

    value: float
    resampled: FloatArray


Statistic = Callable[[FloatArray, FloatArray], Figure]
"""Makes a figure of the known ones of times (n,), and of draws of their slices (resamples, slices)."""

WHOLE = np.ones((1, 1))
"""The one draw of the one slice that everything is in."""


def _mean(seconds: FloatArray, draws: FloatArray) -> Figure:
    served = np.isfinite(seconds)
    summed = np.where(served, seconds, 0.0)[:, None]
    slices = slice_sums(summed, served.astype(np.int64), draws.shape[1])
    means: FloatArray = (draws @ slices.hits)[:, 0] / np.maximum(draws @ slices.total, 1.0)
    return Figure(float(slices.ratio[0]), means)


def _quantile(q: float) -> Statistic:
    def quantile(seconds: FloatArray, draws: FloatArray) -> Figure:
        served = seconds[np.isfinite(seconds)]
        return Figure(float(np.quantile(served, q)), resampled_quantiles(served, draws, q))

    return quantile


def _allowed(value: float, low: float, high: float, allowance: float) -> Estimate:
    """An interval with what the model may be off by on both sides."""
    return Estimate(value, min(low, value) * max(1 - allowance, 0.0), max(high, value) * (1 + allowance))


def _disagreement(fleet: RoutedFleet, recorded: Served) -> FloatArray:
    """How far modelled and recorded shares of l0, l1, l2 and their sum differ, where they tell: (4,).

    Below the allowance it counts as what other policies are off by at least; a split that records do not make
    is as far off as the sum.
    """
    sample = fleet.sample
    window, first = sample.window, sample.first_measured
    total = max(int(sample.trace.input_tokens[first:].sum()), 1)
    parts = [
        (int(modelled[first:].sum()) - float(sample.of(seen).sum())) / total
        for modelled, seen in (
            (recorded.split.l0, window.l0),
            (recorded.split.l1, window.l1),
            (recorded.split.l2, window.l2),
            (recorded.split.computed, window.computed),
        )
    ]
    errors = np.abs(np.array(parts))
    if sample.of(window.external).any():
        errors[1:3] = errors[3]
    return np.where(errors > MODEL_ALLOWANCE, errors, LEAST_ROUTED_HIT_ERROR)
