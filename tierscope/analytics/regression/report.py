"""A stretch of an endpoint's history, judged afterwards: what was found in it, and whether it goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import JsonValue

from tierscope.analytics.regression.detector import DEFAULTS, DetectorSettings, Regression, State
from tierscope.analytics.regression.endpoint import EndpointWatch
from tierscope.analytics.regression.words import document
from tierscope.domain.severity import Severity
from tierscope.domain.trace import FloatArray
from tierscope.domain.window import Evidence

LEAST_BASELINE_REQUESTS = 500
"""Fewer say too little of what is usual."""
CRITICAL_RATIO = 1.5


@dataclass(frozen=True, slots=True)
class RegressionReport:
    """What was found since a moment; `baseline_requests` came before it and say what is usual.

    Without enough of them the state is `learning` and nothing can be found.
    """

    endpoint: str
    since_unix_seconds: float
    state: State
    baseline_requests: int
    requests: int
    found: tuple[Regression, ...] = ()

    @property
    def severity(self) -> Severity | None:
        """`info`: it is over, `warning`: it goes on, `critical`: by half and more; None: nothing found."""
        if not self.found:
            return None
        if self.state is not State.RAISED:
            return Severity.INFO
        return Severity.CRITICAL if self.found[-1].ratio >= CRITICAL_RATIO else Severity.WARNING

    def to_json(self) -> dict[str, JsonValue]:
        """The document of the API and of the command."""
        severity = self.severity
        return {
            "endpoint": self.endpoint,
            "since_unix_seconds": self.since_unix_seconds,
            "state": self.state.value,
            "severity": None if severity is None else severity.value,
            "baseline_requests": self.baseline_requests,
            "requests": self.requests,
            "regressions": [document(one, self.endpoint) for one in self.found],
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
    told = window.at_unix_seconds[np.isfinite(window.ttft_seconds) & (window.ttft_seconds > 0)]
    cut = _usual_since(told, since_unix_seconds, changes_unix_seconds, settings.settle_seconds)
    learnt_from = -math.inf if cut is None else cut + settings.settle_seconds
    before = int(((told >= learnt_from) & (told < since_unix_seconds)).sum())
    after = int((told >= since_unix_seconds).sum())
    if before < LEAST_BASELINE_REQUESTS:
        return RegressionReport(endpoint, since_unix_seconds, State.LEARNING, before, after)
    usual = min(before, settings.calibration_requests)
    watch = EndpointWatch(replace(settings, calibration_requests=usual))
    changes = [at for at in changes_unix_seconds if at == cut or at >= since_unix_seconds]
    found = watch.feed(window, evidence.samples, changes)
    recent = tuple(one for one in found if one.found_unix_seconds >= since_unix_seconds)
    return RegressionReport(endpoint, since_unix_seconds, watch.detector.state, usual, after, recent)


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
