"""One endpoint's recorded history through the detector, in the order it happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tierscope.analytics.regression.attribution import PoolReadings
from tierscope.analytics.regression.detector import DEFAULTS, Detector, DetectorSettings, Regression
from tierscope.analytics.regression.observations import observe
from tierscope.analytics.regression.seen import SeenBlocks
from tierscope.domain.events import TierSample
from tierscope.domain.identity import EngineId
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow

STEP_REQUESTS = 50
"""Requests between two looks, so that a long window is judged as it would have been live."""
POOL_MEMORY_SECONDS = 6 * 3600.0
"""How long it is remembered that the pool was larger."""


class PoolHistory:
    """The pool's readings, oldest first; those older than `POOL_MEMORY_SECONDS` are forgotten."""

    def __init__(self) -> None:
        self._samples: deque[TierSample] = deque()

    def add(self, samples: Sequence[TierSample]) -> None:
        """Take the next readings; those of other tiers are left out."""
        self._samples += [sample for sample in samples if sample.tier is Tier.L2]

    def until(self, unix_seconds: float) -> PoolReadings:
        """The pool as it was then, and the largest it had been."""
        while self._samples and self._samples[0].at_unix_seconds < unix_seconds - POOL_MEMORY_SECONDS:
            self._samples.popleft()
        told = [sample for sample in self._samples if sample.at_unix_seconds <= unix_seconds]
        capacities = [sample.capacity_bytes for sample in told if sample.capacity_bytes is not None]
        if not capacities:
            return PoolReadings()
        return PoolReadings(max(capacities), capacities[-1], told[-1].used_bytes)


class EndpointWatch:
    """Windows of requests in order, each going on where the last ended."""

    def __init__(self, settings: DetectorSettings = DEFAULTS) -> None:
        self.detector = Detector(settings)
        self._seen = SeenBlocks()
        self._engines: dict[EngineId, int] = {}
        self._pool = PoolHistory()

    def feed(
        self,
        window: RequestWindow,
        samples: Sequence[TierSample] = (),
        changes_unix_seconds: Sequence[float] = (),
    ) -> list[Regression]:
        """Take the next window, the readings of its span, and when the configuration changed within it.

        Returns the regressions that were raised.
        """
        self._pool.add(samples)
        rollouts = sorted({*changes_unix_seconds, *self._new_engine(window)})
        changes = set(changes_unix_seconds)
        seen = observe(window, self._seen, self._engines)
        found = []
        for start in range(0, len(seen.prompt), STEP_REQUESTS):
            part = seen.take(slice(start, start + STEP_REQUESTS))
            until = float(part.at_unix_seconds[-1])
            while rollouts and rollouts[0] <= until:
                at = rollouts.pop(0)
                self.detector.rollout(at, reconfigured=at in changes)
            raised = self.detector.feed(part, self._pool.until(until))
            if raised is not None:
                found.append(raised)
        for at in rollouts:
            self.detector.rollout(at, reconfigured=at in changes)
        return found

    def _new_engine(self, window: RequestWindow) -> list[float]:
        """When the first engine asked that never was asked before; at the very first, all are."""
        new = [number for number, one in enumerate(window.engines) if one not in self._engines]
        if not self._engines or not new:
            return []
        return [min(float(window.at_unix_seconds[window.engine == number].min()) for number in new)]
