"""A stretch of an endpoint's history, judged afterwards: what was found in it, and whether it goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from tierscope.analytics.regression.detector import DEFAULTS, DetectorSettings, State
from tierscope.analytics.regression.endpoint import EndpointWatch, Found
from tierscope.analytics.regression.groups import Group, Groups
from tierscope.analytics.regression.words import document
from tierscope.domain.severity import Severity
from tierscope.domain.trace import FloatArray
from tierscope.domain.window import Evidence

LEAST_BASELINE_REQUESTS = 500
"""Fewer say too little of what is usual."""
CRITICAL_RATIO = 1.5


class Judged(NamedTuple):
    """A model on a workload's replicas: requests that say what is usual, and those judged by them."""

    group: Group
    state: State
    baseline_requests: int
    requests: int

    def to_json(self) -> dict[str, JsonValue]:
        """The group in the documents of the API and of the command."""
        return {
            "model": self.group.model,
            "workload": self.group.workload,
            "state": self.state.value,
            "baseline_requests": self.baseline_requests,
            "requests": self.requests,
        }


@dataclass(frozen=True, slots=True)
class RegressionReport:
    """What was found since a moment, by group; what came before it says what is usual.

    Where no group has enough of that the state is `learning` and nothing can be found.
    """

    endpoint: str
    since_unix_seconds: float
    groups: tuple[Judged, ...]
    found: tuple[Found, ...] = ()

    @property
    def state(self) -> State:
        """Raised if any group is; learning if none does more."""
        states = {one.state for one in self.groups}
        return next((one for one in (State.RAISED, State.WATCHING) if one in states), State.LEARNING)

    @property
    def baseline_requests(self) -> int:
        """Requests that say what is usual; those of groups that have too few count where all have."""
        learnt = [one for one in self.groups if one.state is not State.LEARNING] or self.groups
        return sum(one.baseline_requests for one in learnt)

    @property
    def requests(self) -> int:
        """Requests since the moment asked for."""
        return sum(one.requests for one in self.groups)

    @property
    def severity(self) -> Severity | None:
        """`info`: it is over, `warning`: it goes on, `critical`: by half and more; None: nothing found."""
        if not self.found:
            return None
        raised = {one.group for one in self.groups if one.state is State.RAISED}
        last = {one.group: one.regression.ratio for one in self.found if one.group in raised}
        if not last:
            return Severity.INFO
        return Severity.CRITICAL if max(last.values()) >= CRITICAL_RATIO else Severity.WARNING

    def to_json(self) -> dict[str, JsonValue]:
        """The document of the API and of the command."""
        severity, alone = self.severity, len(self.groups) == 1
        return {
            "endpoint": self.endpoint,
            "since_unix_seconds": self.since_unix_seconds,
            "state": self.state.value,
            "severity": None if severity is None else severity.value,
            "baseline_requests": self.baseline_requests,
            "requests": self.requests,
            "groups": [one.to_json() for one in self.groups],
            "regressions": [document(one, self.endpoint, alone=alone) for one in self.found],
        }


def regress(
    evidence: Evidence,
    endpoint: str,
    since_unix_seconds: float,
    settings: DetectorSettings = DEFAULTS,
    *,
    changes_unix_seconds: Sequence[float] = (),
) -> RegressionReport:
    """Learn from what came before `since_unix_seconds`, and judge what came after.

    `changes_unix_seconds` are those of the configuration in that time.
    """
    window = evidence.window
    has_told = np.isfinite(window.ttft_seconds) & (window.ttft_seconds > 0)
    told = window.at_unix_seconds[has_told]
    cut = _usual_since(told, since_unix_seconds, changes_unix_seconds, settings.settle_seconds)
    learnt_from = -math.inf if cut is None else cut + settings.settle_seconds
    known, of_request = Groups().of(window) if window.requests else ((), np.zeros(0, dtype=np.int64))
    counts = {}
    for number, group in enumerate(known):
        at = told[of_request[has_told] == number]
        before = int(((at >= learnt_from) & (at < since_unix_seconds)).sum())
        counts[group] = before, int((at >= since_unix_seconds).sum())
    enough = {group: before for group, (before, _) in counts.items() if before >= LEAST_BASELINE_REQUESTS}
    if not enough:
        learning = tuple(Judged(group, State.LEARNING, *both) for group, both in counts.items())
        return RegressionReport(endpoint, since_unix_seconds, learning)
    usual = {group: min(before, settings.calibration_requests) for group, before in enough.items()}
    watch = EndpointWatch(
        {group: replace(settings, calibration_requests=number) for group, number in usual.items()}
    )
    changes = [at for at in changes_unix_seconds if at == cut or at >= since_unix_seconds]
    found = watch.feed(window, evidence.samples, changes)
    states = {group: detector.state for group, detector in watch.detectors().items()}
    judged = tuple(
        Judged(group, states.get(group, State.LEARNING), usual.get(group, before), after)
        for group, (before, after) in counts.items()
    )
    recent = tuple(one for one in found if one.regression.found_unix_seconds >= since_unix_seconds)
    return RegressionReport(endpoint, since_unix_seconds, judged, recent)


def _usual_since(
    told: FloatArray, since_unix_seconds: float, changes: Sequence[float], settle_seconds: float
) -> float | None:
    """The latest change that still leaves enough requests before `since`, once caches had time to fill."""
    enough = [
        at
        for at in changes
        if ((told >= at + settle_seconds) & (told < since_unix_seconds)).sum() >= LEAST_BASELINE_REQUESTS
    ]
    return max(enough, default=None)
