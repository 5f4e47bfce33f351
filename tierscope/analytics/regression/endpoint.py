"""One endpoint's recorded history through the detector, in the order it happened."""

from __future__ import annotations

from collections.abc import Sequence

from tierscope.analytics.regression.attribution import PoolReadings
from tierscope.analytics.regression.detector import DEFAULTS, Detector, DetectorSettings, Regression
from tierscope.analytics.regression.observations import Observations, observe
from tierscope.analytics.regression.seen import SeenBlocks
from tierscope.domain.events import TierSample
from tierscope.domain.identity import EngineId
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow

STEP_REQUESTS = 50
"""Requests between two looks, so that a long window is judged as it would have been live."""


class EndpointWatch:
    """Windows of requests in order, each going on where the last ended."""

    def __init__(self, settings: DetectorSettings = DEFAULTS) -> None:
        self.detector = Detector(settings)
        self._seen = SeenBlocks()
        self._engines: dict[EngineId, int] = {}
        self._samples: list[TierSample] = []

    def feed(self, window: RequestWindow, samples: Sequence[TierSample] = ()) -> list[Regression]:
        """Take the next window and the readings of its span; returns the regressions raised within."""
        self._samples += [sample for sample in samples if sample.tier is Tier.L2]
        known = set(self._engines)
        new = [engine for engine in window.engines if known and engine not in known]
        if new:
            first = min(
                window.at_unix_seconds[window.engine == window.engines.index(engine)].min() for engine in new
            )
            self.detector.rollout(float(first))
        seen = observe(window, self._seen, self._engines)
        found = []
        for start in range(0, len(seen.prompt), STEP_REQUESTS):
            part = seen.take(slice(start, start + STEP_REQUESTS))
            raised = self.detector.feed(part, self._pool(part))
            if raised is not None:
                found.append(raised)
        return found

    def _pool(self, until: Observations) -> PoolReadings:
        """The pool at the time of the latest request, and the largest it has been."""
        now = float(until.at_unix_seconds[-1])
        told = [sample for sample in self._samples if sample.at_unix_seconds <= now]
        capacities = [sample.capacity_bytes for sample in told if sample.capacity_bytes is not None]
        if not capacities:
            return PoolReadings()
        return PoolReadings(max(capacities), capacities[-1], told[-1].used_bytes)
