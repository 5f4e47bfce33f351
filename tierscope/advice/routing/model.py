"""The fleet that routers are compared on: sizes from the readings, step times from the recorded TTFT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tierscope.advice.readings import chunk_tokens, read_tiers
from tierscope.advice.routing.options import Option
from tierscope.advice.routing.sample import Sample
from tierscope.advice.sizing.latency import TtftModel, ttft_model
from tierscope.advice.thresholds import ASSUMED_TTFT_ERROR, LEAST_ROUTED_TTFT_ERROR
from tierscope.advice.wiring_findings import sees_prompts
from tierscope.domain.command_line import number_of
from tierscope.domain.deployment import Deployment
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import FloatArray, Trace
from tierscope.domain.window import Evidence
from tierscope.domain.wiring import PoolWiring
from tierscope.sim.fleet import TierSizes
from tierscope.sim.jobs import StepTimes
from tierscope.sim.serving import CHART_WEIGHTS, NEAR_A_7B_MODEL, Fleet, Served, faster, serve

TRIED_OUTPUT_TOKENS = (16, 128, 512)
ASSUMED_OUTPUT_TOKENS = 128
SLOWER = (1.0, 1 / 4, 1 / 16)
"""Speeds at which requests come to engines whose times are assumed, until they do not queue up."""
UNLOADED = 1 / 64
QUEUES_UP = 3.0
"""Times the unloaded mean TTFT from which on assumed engines are not up to the recorded load."""
ENGINE_LIMITS = {"--max-num-batched-tokens": "step_tokens", "--max-num-seqs": "most_running"}
"""Arguments of the engine that the model knows, and what it calls them."""
LEAST_HELD_SHARE = 0.9
"""Share of requests that must fit into an engine as it is modelled; else its size is not what it is said."""
SESSIONS_APART = 10_000_019
"""Added to sessions' numbers for another draw of their places on the hash ring."""


class Calibration(NamedTuple):
    """Step times and length of answers, and how far the recorded TTFT is from what they give.

    `error_ratio` is None where no TTFT was recorded: the times are assumed, and requests come `speed` times
    as fast as recorded.
    """

    times: StepTimes
    output_tokens: int
    error_ratio: float | None
    speed: float

    @property
    def allowance(self) -> float:
        """By how much what is foretold of TTFT may be off."""
        if self.error_ratio is None:
            return ASSUMED_TTFT_ERROR
        return max(self.error_ratio, LEAST_ROUTED_TTFT_ERROR)


@dataclass(frozen=True, slots=True)
class RoutedFleet:
    """A deployment that can be served again, request by request, by any policy."""

    sample: Sample
    deployment: Deployment
    sizes: TierSizes
    chunk_tokens: int
    calibration: Calibration

    def recorded(self) -> Served:
        """The sample on the replicas that really served it."""
        return _serve(self, self.deployment.replicas, Option(self.deployment.routing), 0, placed=True)

    def draw(self, option: Option, number: int, replicas: int | None = None) -> Served:
        """The sample through a router; other numbers are other draws of what it leaves to chance."""
        return _serve(self, replicas or self.deployment.replicas, option, number, placed=False)


def fleet_of(evidence: Evidence, deployment: Deployment, sample: Sample) -> RoutedFleet | str:
    """Prepare a deployment; the reason in words where its engines cannot be modelled."""
    sizes = _sizes(evidence, deployment)
    chunk = chunk_tokens(evidence)
    if chunk is None or sizes is None:
        return "how many tokens L0 holds is not known"
    assumed = Calibration(_as_configured(NEAR_A_7B_MODEL, deployment), ASSUMED_OUTPUT_TOKENS, None, 1.0)
    fleet = RoutedFleet(sample, deployment, sizes, chunk, assumed)
    held = float(np.isfinite(fleet.recorded().ttft_seconds[sample.first_measured :]).mean())
    if held < LEAST_HELD_SHARE:
        return f"{1 - held:.0%} of the prompts are longer than what L0 is said to hold"
    fitted = ttft_model(evidence.window, int(sample.requests[sample.first_measured :].min(initial=0)))
    if isinstance(fitted, str):
        if np.isfinite(sample.of(sample.window.ttft_seconds)).any():
            return f"the recorded TTFT does not tell what a step takes: {fitted}"
        return replace(fleet, calibration=assumed._replace(speed=_bearable_speed(fleet)))
    tried = list(_calibrations(fleet, _as_configured(_step_times(fitted), deployment)))
    return replace(fleet, calibration=min(tried, key=lambda one: one.error_ratio or 0.0))


def _calibrations(fleet: RoutedFleet, times: StepTimes) -> Iterator[Calibration]:
    """Answers of several lengths: records do not tell them, but longer ones make prompts wait."""
    observed = fleet.sample.of(fleet.sample.window.ttft_seconds)
    known = np.isfinite(observed)
    for tokens in TRIED_OUTPUT_TOKENS:
        tried = replace(fleet, calibration=Calibration(times, tokens, None, 1.0))
        modelled = tried.recorded().ttft_seconds[fleet.sample.first_measured :]
        both = known & np.isfinite(modelled)
        yield Calibration(times, tokens, _error(modelled[both], observed[both]), 1.0)


def _error(modelled: FloatArray, observed: FloatArray) -> float:
    """The worse of how far mean and median are off, as ratios; what is not known at all is off entirely."""
    if not len(observed):
        return 1.0
    return max(
        abs(float(modelled.mean() / observed.mean()) - 1),
        abs(float(np.median(modelled) / np.median(observed)) - 1),
    )


def _bearable_speed(fleet: RoutedFleet) -> float:
    """The fastest of some speeds at which engines of assumed times do not queue up."""

    def mean_at(speed: float) -> float:
        at_speed = replace(fleet, calibration=fleet.calibration._replace(speed=speed))
        ttft = at_speed.recorded().ttft_seconds[fleet.sample.first_measured :]
        return float(np.nanmean(ttft)) if np.isfinite(ttft).any() else 0.0

    unloaded = mean_at(UNLOADED)
    return next((speed for speed in SLOWER if mean_at(speed) <= QUEUES_UP * unloaded), SLOWER[-1])


def _step_times(fitted: TtftModel) -> StepTimes:
    """Times from the fit of TTFT on tokens; what it cannot tell scales with the speed of prefill."""
    fixed, cost = (
        float(fitted.fit.coefficients[0]),
        dict(zip(fitted.priced, fitted.fit.coefficients[1:].tolist(), strict=True)),
    )
    base = NEAR_A_7B_MODEL
    prefill = cost.get("computed", 0.0) or base.prefill_seconds_per_token
    slower = prefill / base.prefill_seconds_per_token
    step = min(base.step_seconds * slower, fixed)
    both = cost.get("L1 or L2")
    return base._replace(
        step_seconds=max(step, 1e-4),
        prefill_seconds_per_token=prefill,
        attention_seconds_per_pair=0.0,
        context_seconds_per_token=base.context_seconds_per_token * slower,
        api_seconds=max(fixed - step, 0.0),
        l1_seconds_per_token=both or cost.get("L1", base.l1_seconds_per_token),
        l2_seconds_per_token=both or cost.get("L2", base.l2_seconds_per_token),
    )


def _as_configured(times: StepTimes, deployment: Deployment) -> StepTimes:
    """The same with what the engine's arguments say that one step, and one engine, may hold."""
    args = deployment.wiring.engine_args if deployment.wiring else ()
    words = [word for arg in args for word in arg.replace("=", " ", 1).split()]
    given = {ENGINE_LIMITS[name]: number_of(word) for name, word in pairwise(words) if name in ENGINE_LIMITS}
    said = {field: int(number) for field, number in given.items() if number is not None and number >= 1}
    return times._replace(**said)


def _sizes(evidence: Evidence, deployment: Deployment) -> TierSizes | None:
    readings, chunk = read_tiers(evidence, deployment), chunk_tokens(evidence)
    l0 = readings.get(Tier.L0)
    if chunk is None or l0 is None or l0.capacity_tokens is None:
        return None

    def chunks(tier: Tier) -> int:
        config, reading = deployment.tier(tier), readings.get(tier)
        if config is None or reading is None or not reading.bytes_per_token:
            return 0
        return int(config.capacity_bytes // (reading.bytes_per_token * chunk))

    blocks = int(l0.capacity_tokens // evidence.window.block_tokens)
    return TierSizes(l0_blocks=blocks, l1_chunks=chunks(Tier.L1), l2_chunks=chunks(Tier.L2))


def _serve(fleet: RoutedFleet, replicas: int, option: Option, number: int, *, placed: bool) -> Served:
    deployment, calibration = fleet.deployment, fleet.calibration
    served_by = Fleet(
        replicas=replicas,
        sizes=fleet.sizes,
        policy=option.policy,
        chunk_tokens=fleet.chunk_tokens,
        keeps_loads=deployment.l1_keeps_loads is not False,
        l2_ttl_seconds=_lifetime(deployment.wiring.pool if deployment.wiring else None),
        chat=deployment.wiring is not None and not sees_prompts(deployment.wiring),
        weights=option.weights or CHART_WEIGHTS,
        times=calibration.times,
        seed=number,
    )
    trace = _drawn(fleet.sample.with_answers(calibration.output_tokens), number)
    if calibration.speed != 1.0:
        trace = faster(trace, calibration.speed)
    return serve(trace, served_by, fleet.sample.placement if placed else None)


def _drawn(trace: Trace, number: int) -> Trace:
    moved = np.where(trace.session < 0, trace.session, trace.session + number * SESSIONS_APART)
    return replace(trace, session=moved.astype(np.int32))


def _lifetime(pool: PoolWiring | None) -> float | None:
    return pool.ttl_seconds if pool is not None and pool.ttl_action == "delete" else None
