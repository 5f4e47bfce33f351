"""The detector of one model and group of replicas: learns, watches, raises, and arms itself again.

Two streams of scores are watched by Page-Hinkley. Requests against what their tokens usually take find a
tier, an engine or a queue that got slower; a prompt mix that changed does not move them. Windows of requests
against what tiers usually serve of what was seen before find a tier that lost hits; prompts that repeat less
do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.attribution import (
    Attribution,
    Cause,
    PartsModel,
    PoolReadings,
    attribute,
    fit_parts,
    rises,
)
from tierscope.analytics.regression.baseline import WINDOW_REQUESTS, Baseline, calibrate
from tierscope.analytics.regression.observations import NO_OBSERVATIONS, Observations, joined
from tierscope.analytics.regression.page_hinkley import PageHinkley, threshold_for
from tierscope.domain.trace import FloatArray


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """How careful the detector is. The defaults suit an endpoint with a request a second or more."""

    calibration_requests: int = 4000
    """Requests a baseline is made of."""
    minimum_effect: float = 1.1
    """The smallest rise of TTFT that is looked for, as a ratio: half of it is held for noise."""
    run_length_requests: float = 1e7
    """Requests between two false alarms, on average."""
    judged_requests: int = 200
    """Requests since the change that an attribution rests on at least."""
    settle_seconds: float = 1800.0
    """After a rollout caches fill: for so long lost hits are not counted."""
    accept_seconds: float = 86_400.0
    """A regression that lasts so long is the new usual."""


DEFAULTS = DetectorSettings()
NO_READINGS = PoolReadings()
DATING_SECONDS = 60.0
"""A change is dated to about this, so it may seem to come before the rollout that made it."""


class State(StrEnum):
    """Where a detector stands."""

    LEARNING = "learning"
    WATCHING = "watching"
    RAISED = "raised"


@dataclass(frozen=True, slots=True)
class Regression:
    """TTFT is `ratio` times what it would have been, since a moment, and who did it."""

    since_unix_seconds: float
    found_unix_seconds: float
    requests: int
    """Requests since the change that this rests on."""
    ratio: float
    extra_seconds: float
    """Mean of what a request waits longer than it would have."""
    attribution: Attribution
    rollout_unix_seconds: float | None = None
    """The rollout it came after, if one was shortly before."""


class Latest(NamedTuple):
    """The latest requests: how many times as long they took, and the rise of each part in seconds."""

    ratio: float
    rises: dict[Cause, float]


class Detector:
    """Feed it observations in order; `regression` is what is raised now."""

    def __init__(self, settings: DetectorSettings = DEFAULTS) -> None:
        self.settings = settings
        self.state = State.LEARNING
        self.regression: Regression | None = None
        self.baseline: Baseline | None = None
        self._model: PartsModel | None = None
        self.found = 0
        """Regressions raised so far."""
        self._learning = NO_OBSERVATIONS
        self._recent = NO_OBSERVATIONS
        self._open = NO_OBSERVATIONS
        """Requests that do not make a whole window yet."""
        self._speed = self._share = PageHinkley(1.0, 1.0)
        self._rollout_unix_seconds: float | None = None
        self._pending_since: float | None = None

    def rollout(self, at_unix_seconds: float) -> None:
        """Engines were replaced: their caches are empty; what follows is held against what was before."""
        self._rollout_unix_seconds = at_unix_seconds
        self._share.reset()
        self._open = NO_OBSERVATIONS

    def feed(self, seen: Observations, pool: PoolReadings = NO_READINGS) -> Regression | None:
        """Take the next requests; returns a regression when one is raised by them."""
        if not len(seen.prompt):
            return None
        if self.state is State.LEARNING:
            self._learn(seen)
            return None
        self._recent = joined((self._recent, seen)).take(slice(-2 * self.settings.calibration_requests, None))
        if self.state is State.RAISED:
            self._look_again()
            return None
        return self._watch(seen, pool)

    def latest(self) -> Latest | None:
        """How the latest requests stand against the baseline; None while it is being learnt."""
        since = self._recent.take(slice(-self.settings.judged_requests, None))
        if self.baseline is None or self._model is None or len(since.prompt) < self.settings.judged_requests:
            return None
        ratio, _ = self._effect(since)
        return Latest(ratio, rises(self.baseline, self._model, since))

    def _learn(self, seen: Observations) -> None:
        self._learning = joined((self._learning, seen))
        if len(self._learning.prompt) >= self.settings.calibration_requests:
            self._arm(self._learning)
            self._learning = NO_OBSERVATIONS

    def _arm(self, past: Observations) -> None:
        settings = self.settings
        baseline = calibrate(past, settings.minimum_effect)
        drift = max(baseline.minimum_effect_score / 2, 0.01)
        error = 1 / np.sqrt(len(past.prompt))
        self._speed = PageHinkley(drift, threshold_for(settings.run_length_requests, drift, float(error)))
        share_drift = np.log(settings.minimum_effect) / 2 / baseline.share_spread
        share_error = 1.25 / np.sqrt(max(baseline.share_windows, 1))
        windows = settings.run_length_requests / WINDOW_REQUESTS
        self._share = PageHinkley(
            float(share_drift), threshold_for(windows, float(share_drift), float(share_error))
        )
        self.baseline, self.state, self.regression = baseline, State.WATCHING, None
        self._model = fit_parts(past)
        self._recent = self._open = NO_OBSERVATIONS
        self._pending_since = None

    def _watch(self, seen: Observations, pool: PoolReadings) -> Regression | None:
        if self._pending_since is None:
            self._pending_since = self._changed_at(seen)
        if self._pending_since is None:
            return None
        since = self._since(self._pending_since)
        if len(since.prompt) < self.settings.judged_requests:
            return None
        found = self._judge(since, self._pending_since, pool)
        self._pending_since = None
        self._speed.reset()
        self._share.reset()
        if found.ratio < 1 + (self.settings.minimum_effect - 1) / 2:
            return None
        self.state, self.regression = State.RAISED, found
        self.found += 1
        return found

    def _changed_at(self, seen: Observations) -> float | None:
        """When a change began that has just been found; None without one."""
        assert self.baseline is not None
        scores = self.baseline.scores(seen)
        counted = np.isfinite(scores)
        times = seen.at_unix_seconds[counted]
        alarm = self._speed.feed(scores[counted])
        if alarm is not None:
            return self._time_before(self._speed.since_change(), times, alarm)
        return self._share_changed_at(seen)

    def _share_changed_at(self, seen: Observations) -> float | None:
        assert self.baseline is not None
        rollout = self._rollout_unix_seconds
        if rollout is not None:
            seen = seen.take(seen.at_unix_seconds >= rollout + self.settings.settle_seconds)
        if not self.baseline.has_reuse or not len(seen.prompt):
            return None
        self._open = joined((self._open, seen))
        whole = len(self._open.prompt) // WINDOW_REQUESTS * WINDOW_REQUESTS
        windows, self._open = self._open.take(slice(0, whole)), self._open.take(slice(whole, None))
        if not whole:
            return None
        alarm = self._share.feed(self.baseline.share_scores(windows))
        if alarm is None:
            return None
        back = self._share.since_change() * WINDOW_REQUESTS
        return self._time_before(back, windows.at_unix_seconds, (alarm + 1) * WINDOW_REQUESTS - 1)

    def _time_before(self, back: int, times: FloatArray, at: int) -> float:
        """Time of the request `back` before the one that raised the alarm, among those kept."""
        until = self._recent.at_unix_seconds[self._recent.at_unix_seconds <= times[at]]
        return float(until[max(0, len(until) - back)])

    def _since(self, unix_seconds: float) -> Observations:
        return self._recent.take(self._recent.at_unix_seconds >= unix_seconds)

    def _judge(self, since: Observations, changed_unix_seconds: float, pool: PoolReadings) -> Regression:
        assert self.baseline is not None
        assert self._model is not None
        ratio, extra = self._effect(since)
        rollout = self._rollout_unix_seconds
        came_after = (
            rollout is not None
            and -DATING_SECONDS <= changed_unix_seconds - rollout < 2 * self.settings.settle_seconds
        )
        return Regression(
            since_unix_seconds=changed_unix_seconds,
            found_unix_seconds=float(since.at_unix_seconds[-1]),
            requests=len(since.prompt),
            ratio=ratio,
            extra_seconds=extra,
            attribution=attribute(self.baseline, self._model, since, pool),
            rollout_unix_seconds=rollout if came_after else None,
        )

    def _effect(self, since: Observations) -> tuple[float, float]:
        """How many times as long requests took as they would have, by share and speed; and seconds more."""
        assert self.baseline is not None
        baseline = self.baseline
        speed = np.median(np.log(since.ttft_seconds / baseline.expected_seconds(since)))
        ratio = float(np.exp(speed))
        if baseline.has_reuse and len(since.prompt) >= WINDOW_REQUESTS:
            usual = baseline.usual_seconds(since, affinity=baseline.shares.affinity)
            shift = np.log(baseline.expected_seconds(since).sum() / usual.sum()) - baseline.share_centre
            ratio *= float(np.exp(max(0.0, shift)))
        return ratio, float(np.median(since.ttft_seconds)) * (1 - 1 / ratio)

    def _look_again(self) -> None:
        """Whether what is raised goes on: it ends when requests are as they were, or are so for a day."""
        assert self.regression is not None
        latest = self._since(self.regression.since_unix_seconds).take(
            slice(-self.settings.judged_requests, None)
        )
        if len(latest.prompt) < self.settings.judged_requests:
            return
        now = float(latest.at_unix_seconds[-1])
        ratio, _ = self._effect(latest)
        if now - self.regression.since_unix_seconds > self.settings.accept_seconds:
            enough = self._since(self.regression.since_unix_seconds).take(
                slice(-self.settings.calibration_requests, None)
            )
            self._arm(enough)
        elif ratio < 1 + (self.settings.minimum_effect - 1) / 3:
            self.state, self.regression = State.WATCHING, None
            self._speed.reset()
            self._share.reset()
