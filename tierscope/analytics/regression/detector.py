"""The detector of one model and group of replicas: learns, watches, raises, and arms itself again.

Three streams of scores are watched by Page-Hinkley. Requests against what their tokens usually take find a
tier, an engine or a queue that got slower; a prompt mix that changed does not move them. Windows of requests
against what caches usually serve of what was asked for as long ago find a tier that lost hits, and against
where the router usually sends them one that sends them elsewhere; prompts that repeat less move neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.attribution import (
    Attribution,
    Cause,
    PartsModel,
    Pools,
    attribute,
    fit_parts,
    rises,
)
from tierscope.analytics.regression.baseline import WINDOW_REQUESTS, Baseline, Usual, calibrate
from tierscope.analytics.regression.kept import Kept
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
    calm_requests: int = 500
    """As many that take no longer than they should end what was raised."""
    settle_seconds: float = 1800.0
    """After a rollout caches fill: for so long lost hits are not counted."""
    accept_seconds: float = 86_400.0
    """A regression that lasts so long is the new usual."""


DEFAULTS = DetectorSettings()
LEAST_BASELINE_REQUESTS = 500
"""Fewer say too little of what is usual."""
NO_READINGS: Pools = ()
MEDIAN_ERROR = 1.25
"""Standard error of the median of n normal values, times the root of n."""
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
    """What a request of median TTFT since then waits longer than it would have, by `ratio`."""
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
        self.inherits = False
        """The baseline is another's."""
        self._learns = True
        self._model: PartsModel | None = None
        self.found = 0
        """Regressions raised so far."""
        self._learning = NO_OBSERVATIONS
        self._recent = Kept(2 * settings.calibration_requests)
        self._open = NO_OBSERVATIONS
        """Requests that do not make a whole window yet."""
        self._speed = self._caches = self._routing = PageHinkley(1.0, 1.0)
        self._rollout_unix_seconds: float | None = None
        self._pending_since: float | None = None
        self._usual_from: float | None = None
        """From here on requests are of a new configuration, which has no baseline of its own yet."""

    def heir(self, at_unix_seconds: float) -> Detector:
        """A detector for replicas that begin to serve what these do: held against the same at first.

        Where this one has not learnt what is usual, the heir has to, too.
        """
        heir = Detector(self.settings)
        if self.baseline is not None:
            heir.baseline, heir._model, heir.state = self.baseline, self._model, State.WATCHING
            heir.inherits = True
            heir._speed = self._speed.anew()
            heir._caches, heir._routing = self._caches.anew(), self._routing.anew()
            heir.rollout(at_unix_seconds, reconfigured=True)
        return heir

    def conclude(self) -> None:
        """What came so far says what is usual, where it is enough; what follows is only judged.

        A suspicion keeps the baseline that it is held against.
        """
        past = self._learning
        if self.state is State.WATCHING and self._usual_from is not None and self._pending_since is None:
            past = self._since(self._usual_from)
        if len(past.prompt) >= LEAST_BASELINE_REQUESTS:
            self._arm(past)
        self._learning, self._usual_from, self._learns = NO_OBSERVATIONS, None, False

    def risen(self) -> Detector | None:
        """One that holds what follows against the level that is raised now, and sees it rise again.

        None where nothing is raised, or too few requests since say what that level is.
        """
        if self.regression is None:
            return None
        past = self._since(self.regression.since_unix_seconds)
        if len(past.prompt) < LEAST_BASELINE_REQUESTS:
            return None
        risen = Detector(self.settings)
        risen._arm(past.take(slice(-self.settings.calibration_requests, None)))
        risen._rollout_unix_seconds, risen._learns = self._rollout_unix_seconds, self._learns
        return risen

    def rollout(self, at_unix_seconds: float, *, reconfigured: bool = False) -> None:
        """Engines were replaced: their caches are empty; what follows is held against what was before.

        Where the deployment was `reconfigured` that holds until there are enough requests of the new one,
        from when its caches had time to fill: they are the new usual, unless a regression was raised.
        """
        self._rollout_unix_seconds = at_unix_seconds
        if reconfigured and self._learns:
            self._usual_from = at_unix_seconds + self.settings.settle_seconds
            if self.state is State.LEARNING:
                self._learning = NO_OBSERVATIONS
        self._forget_shares()

    def feed(self, seen: Observations, pools: Pools = NO_READINGS) -> Regression | None:
        """Take the next requests; returns a regression when one is raised by them."""
        if not len(seen.prompt):
            return None
        if self.state is State.LEARNING:
            if self._learns:
                self._learn(seen)
            return None
        self._recent.add(seen)
        if self.state is State.RAISED:
            self._look_again()
            return None
        found = self._watch(seen, pools)
        if found is None and self._pending_since is None:
            self._learn_new_usual()
        return found

    def latest(self) -> Latest | None:
        """How the latest requests stand against the baseline; None while it is being learnt."""
        since = self._recent.latest(self.settings.judged_requests)
        if self.baseline is None or self._model is None or len(since.prompt) < self.settings.judged_requests:
            return None
        ratio, _ = self._effect(since)
        return Latest(ratio, rises(self.baseline, self._model, since))

    def _learn(self, seen: Observations) -> None:
        if self._usual_from is not None:
            seen = seen.take(seen.at_unix_seconds >= self._usual_from)
        self._learning = joined((self._learning, seen))
        if len(self._learning.prompt) >= self.settings.calibration_requests:
            self._arm(self._learning)
            self._learning = NO_OBSERVATIONS

    def _learn_new_usual(self) -> None:
        if self._usual_from is None:
            return
        if (self._recent.times() >= self._usual_from).sum() >= self.settings.calibration_requests:
            self._arm(self._since(self._usual_from))

    def _arm(self, past: Observations) -> None:
        settings = self.settings
        baseline = calibrate(past, settings.minimum_effect)
        drift = max(baseline.minimum_effect_score / 2, 0.01)
        error = 1 / np.sqrt(len(past.prompt))
        self._speed = PageHinkley(drift, threshold_for(settings.run_length_requests, drift, float(error)))
        self._caches, self._routing = (
            self._of_shares(usual) for usual in (baseline.caches, baseline.routing)
        )
        self.baseline, self.state, self.regression = baseline, State.WATCHING, None
        self.inherits = False
        self._model = fit_parts(past)
        self._open = NO_OBSERVATIONS
        self._recent.clear()
        self._pending_since = self._usual_from = None

    def _of_shares(self, usual: Usual) -> PageHinkley:
        settings = self.settings
        drift = math.log(settings.minimum_effect) / 2 / usual.spread
        error = MEDIAN_ERROR / math.sqrt(max(usual.windows, 1))
        windows = settings.run_length_requests / WINDOW_REQUESTS
        return PageHinkley(drift, threshold_for(windows, drift, error))

    def _watch(self, seen: Observations, pools: Pools) -> Regression | None:
        if self._pending_since is None:
            self._pending_since = self._changed_at(seen)
        if self._pending_since is None:
            return None
        since = self._since(self._pending_since)
        if len(since.prompt) < self.settings.judged_requests:
            return None
        found = self._judge(since, self._pending_since, pools)
        self._pending_since = None
        self._forget()
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
        ratios, began = self.baseline.ratios(windows), []
        for stream, scores in (
            (self._caches, self.baseline.caches.scores(ratios.caches)),
            (self._routing, self.baseline.routing.scores(ratios.routing)),
        ):
            alarm = stream.feed(scores)
            if alarm is not None:
                back = stream.since_change() * WINDOW_REQUESTS
                at = (alarm + 1) * WINDOW_REQUESTS - 1
                began.append(self._time_before(back, windows.at_unix_seconds, at))
        return min(began, default=None)

    def _time_before(self, back: int, times: FloatArray, at: int) -> float:
        """Time of the request `back` before the one that raised the alarm, among those kept."""
        kept = self._recent.times()
        until = kept[kept <= times[at]]
        return float(until[max(0, len(until) - back)])

    def _forget(self) -> None:
        self._speed.reset()
        self._forget_shares()

    def _forget_shares(self) -> None:
        self._caches.reset()
        self._routing.reset()
        self._open = NO_OBSERVATIONS

    def _since(self, unix_seconds: float) -> Observations:
        return self._recent.since(unix_seconds)

    def _judge(self, since: Observations, changed_unix_seconds: float, pools: Pools) -> Regression:
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
            attribution=attribute(self.baseline, self._model, since, pools),
            rollout_unix_seconds=rollout if came_after else None,
        )

    def _effect(self, since: Observations) -> tuple[float, float]:
        """How many times as long requests took as they would have, by share and speed; and seconds more."""
        assert self.baseline is not None
        baseline = self.baseline
        speed = np.median(np.log(since.ttft_seconds / baseline.expected_seconds(since)))
        ratio = float(np.exp(speed))
        if baseline.has_reuse and len(since.prompt) >= WINDOW_REQUESTS:
            usual = baseline.usual_seconds(since, placed=False)
            centre = baseline.caches.centre + baseline.routing.centre
            shift = np.log(baseline.expected_seconds(since).sum() / usual.sum()) - centre
            ratio *= float(np.exp(max(0.0, shift)))
        return ratio, float(np.median(since.ttft_seconds)) * (1 - 1 / ratio)

    def _look_again(self) -> None:
        """Whether what is raised goes on: it ends when requests are as they were, or are so for a day.

        In a past that is concluded no day makes it usual.
        """
        assert self.regression is not None
        latest = self._recent.latest(self.settings.calm_requests)
        latest = latest.take(latest.at_unix_seconds >= self.regression.since_unix_seconds)
        if len(latest.prompt) < self.settings.calm_requests:
            return
        lasted_seconds = float(latest.at_unix_seconds[-1]) - self.regression.since_unix_seconds
        ratio, _ = self._effect(latest)
        if self._learns and lasted_seconds > self.settings.accept_seconds:
            enough = self._since(self.regression.since_unix_seconds).take(
                slice(-self.settings.calibration_requests, None)
            )
            self._arm(enough)
        elif ratio < 1 + (self.settings.minimum_effect - 1) / 3:
            self.state, self.regression = State.WATCHING, None
            self._forget()
