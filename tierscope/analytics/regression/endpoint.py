"""One endpoint's recorded history through the detector, in the order it happened."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tierscope.analytics.regression.attribution import PoolReadings, Pools
from tierscope.analytics.regression.detector import DEFAULTS, Detector, DetectorSettings, Regression, State
from tierscope.analytics.regression.engines import Engines
from tierscope.analytics.regression.groups import Group, Groups
from tierscope.analytics.regression.observations import Observations, observe
from tierscope.analytics.regression.seen import Remembered, SeenBlocks
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow

STEP_REQUESTS = 50
"""Requests between two looks, so that a long window is judged as it would have been live."""
POOL_MEMORY_SECONDS = 6 * 3600.0
"""How long it is remembered that the pool was larger."""
POOL_SILENT_SECONDS = 600.0
"""A pool that told nothing for so long, while another did, is not judged by what it told last."""
SILENT_SECONDS = 3600.0
"""A group that served nothing for so long, while others did, is no longer shown."""
FORGOTTEN_SECONDS = 86_400.0
"""And after so long is forgotten, with what was usual of it; so is an engine."""


class PoolHistory:
    """Pools' readings by holder, oldest first; those older than `POOL_MEMORY_SECONDS` are forgotten."""

    def __init__(self) -> None:
        self._of: dict[str, deque[tuple[float, float, float | None]]] = {}
        """When, how large, and how much of it is used."""

    def add(self, samples: Sequence[TierSample]) -> None:
        """Take the next readings, in order for each holder.

        Those of other tiers, and those that tell no size, are left out: an engine's view of a pool has none.
        """
        for one in samples:
            if one.tier is Tier.L2 and one.capacity_bytes is not None:
                reading = one.at_unix_seconds, one.capacity_bytes, one.used_bytes
                self._of.setdefault(one.holder, deque()).append(reading)

    def until(self, unix_seconds: float) -> Pools:
        """Each pool that still tells, as it was then, and the largest it had been."""
        self._forget(unix_seconds - POOL_MEMORY_SECONDS)
        told = [[one for one in readings if one[0] <= unix_seconds] for readings in self._of.values()]
        newest = max((readings[-1][0] for readings in told if readings), default=0.0)
        return tuple(
            PoolReadings(max(size for _, size, _ in readings), *readings[-1][1:])
            for readings in told
            if readings and newest - readings[-1][0] <= POOL_SILENT_SECONDS
        )

    def _forget(self, before_unix_seconds: float) -> None:
        for holder, readings in tuple(self._of.items()):
            while readings and readings[0][0] < before_unix_seconds:
                readings.popleft()
            if not readings:
                del self._of[holder]


class Found(NamedTuple):
    """A regression, and whose."""

    group: Group
    regression: Regression


class Watched:
    """A group's detector, and when its replicas or its configuration changed; it may inherit from `kin`."""

    def __init__(self, group: Group, detector: Detector, kin: Group | None = None) -> None:
        self.detector = detector
        self._before: Detector | None = None
        """What was raised when learning ended is its to follow; `detector` looks for what comes on top."""
        self.served_unix_seconds = -math.inf
        """When it served last."""
        self._group, self._kin = group, kin
        self._rollouts: list[tuple[float, bool]] = []

    @property
    def baseline_of(self) -> Group | None:
        """The group whose requests say what is usual; None while nothing does."""
        if self.detector.baseline is None:
            return None
        return self._kin if self.detector.inherits else self._group

    @property
    def raised(self) -> tuple[Regression, ...]:
        """What goes on now, oldest first."""
        both = (self._before, self.detector)
        return tuple(one.regression for one in both if one is not None and one.regression is not None)

    def conclude(self) -> None:
        """Nothing is learnt from here on; what is raised now hides nothing that follows."""
        self.detector.conclude()
        risen = self.detector.risen()
        if risen is not None:
            self._before, self.detector = self.detector, risen

    def feed(self, part: Observations, pools: Pools) -> Regression | None:
        """Take the next requests of the group; returns a regression when one is raised by them."""
        found = self.detector.feed(part, pools)
        if self._before is not None:
            self._before.feed(part, pools)
            if self._before.state is not State.RAISED:  # all is as it was before either
                self.detector, self._before = self._before, None
        return found

    def expect(self, rollouts: Iterable[tuple[float, bool]]) -> None:
        """Take note of rollouts: when, and whether the configuration changed."""
        self._rollouts = sorted({*self._rollouts, *rollouts})

    def pass_rollouts(self, until_unix_seconds: float) -> None:
        """Tell the detector those that have come."""
        while self._rollouts and self._rollouts[0][0] <= until_unix_seconds:
            at, reconfigured = self._rollouts.pop(0)
            for one in (self._before, self.detector):
                if one is not None:
                    one.rollout(at, reconfigured=reconfigured)


class EndpointWatch:
    """Windows of requests in order, each going on where the last ended; every group has its detector.

    Blocks are remembered by model: no model finds another's. Replicas of a workload that is new are held
    against the model's others until they have a baseline of their own. From `learn_until_unix_seconds` on
    nothing is learnt: a past is judged by what came before. Several watches may share what is `remembered`.
    """

    def __init__(
        self,
        settings: DetectorSettings = DEFAULTS,
        *,
        learn_until_unix_seconds: float = math.inf,
        remembered: Remembered | None = None,
    ) -> None:
        self._settings = settings
        self._learn_until = learn_until_unix_seconds
        self._concluded = False
        self._watched: dict[Group, Watched] = {}
        self._groups = Groups()
        self._seen = SeenBlocks(remembered)
        self._engines = Engines()
        self._pools = PoolHistory()

    def detectors(self) -> dict[Group, Detector]:
        """Those of the groups that serve; one that does not while others do is left out."""
        newest = self._newest()
        return {
            group: one.detector
            for group, one in self.watched().items()
            if one.served_unix_seconds > newest - SILENT_SECONDS
        }

    def watched(self) -> dict[Group, Watched]:
        """All groups, with those that serve no longer."""
        return dict(sorted(self._watched.items()))

    def feed(
        self,
        window: RequestWindow,
        samples: Sequence[TierSample] = (),
        changes_unix_seconds: Sequence[float] = (),
    ) -> list[Found]:
        """Take the next window, the readings of its span, and when the configuration changed within it.

        Returns the regressions that were raised.
        """
        self._pools.add(samples)
        changes = {(at, True) for at in changes_unix_seconds}
        for one in self._watched.values():
            one.expect(changes)
        found = self._judge(window, changes) if window.requests else []
        for one in self._watched.values():
            one.pass_rollouts(math.inf)
        self._conclude(window.span.end_unix_seconds)
        return found

    def forget(self) -> None:
        """Groups and engines that served nothing for `FORGOTTEN_SECONDS`, while others did, make room."""
        newest = self._newest()
        for group, one in tuple(self._watched.items()):
            if one.served_unix_seconds < newest - FORGOTTEN_SECONDS:
                del self._watched[group]
                self._groups.forget(group)
        self._groups.forget_engines(self._engines.forget_silent(FORGOTTEN_SECONDS))

    def _newest(self) -> float:
        return max((one.served_unix_seconds for one in self._watched.values()), default=0.0)

    def _judge(self, window: RequestWindow, changes: set[tuple[float, bool]]) -> list[Found]:
        groups, of_request = self._groups.of(window)
        for number, group in enumerate(groups):
            if group in self._watched:
                self._watched[group].expect(self._new_engines(window, of_request == number))
        seen, told = observe(window, self._seen, self._engines.numbers(window))
        of_seen = of_request[told]
        steps = [
            (float(part.at_unix_seconds[-1]), group, part)
            for number, group in enumerate(groups)
            for part in in_steps(seen.take(of_seen == number), self._learn_until)
        ]
        found = []
        for until, group, part in sorted(steps, key=lambda step: step[:2]):
            self._conclude(until)
            watched = self._watched.get(group) or self._begin(group, float(part.at_unix_seconds[0]), changes)
            watched.pass_rollouts(until)
            watched.served_unix_seconds = until
            raised = watched.feed(part, self._pools.until(until))
            if raised is not None:
                found.append(Found(group, raised))
        return found

    def _begin(self, group: Group, at_unix_seconds: float, changes: set[tuple[float, bool]]) -> Watched:
        kin = [one for known, one in self._watched.items() if known.model == group.model]
        taught = [one for one in kin if one.detector.baseline is not None]
        if taught:
            served_last = max(taught, key=lambda one: one.served_unix_seconds)
            heir = served_last.detector.heir(at_unix_seconds)
            watched = Watched(group, heir, served_last.baseline_of)
            changes = {(at, True) for at, _ in changes if at >= at_unix_seconds}
        else:
            watched = Watched(group, Detector(self._settings))
        if self._concluded:
            watched.conclude()
        watched.expect(changes)
        self._watched[group] = watched
        return watched

    def _conclude(self, until_unix_seconds: float) -> None:
        """What was to be learnt from has passed."""
        if self._concluded or until_unix_seconds < self._learn_until:
            return
        self._concluded = True
        for one in self._watched.values():
            one.pass_rollouts(math.nextafter(self._learn_until, -math.inf))
            one.conclude()

    def _new_engines(self, window: RequestWindow, which: NDArray[np.bool_]) -> list[tuple[float, bool]]:
        """When the first engine of a group was asked that is not known."""
        new = [number for number, one in enumerate(window.engines) if one not in self._engines]
        at = window.at_unix_seconds[which & np.isin(window.engine, new)]
        return [(float(at.min()), False)] if len(at) else []


def in_steps(seen: Observations, cut_unix_seconds: float) -> list[Observations]:
    """A group's requests in steps, so that a long window is judged as it would have been live.

    None reaches across the cut.
    """
    is_before = seen.at_unix_seconds < cut_unix_seconds
    return [
        part.take(slice(start, start + STEP_REQUESTS))
        for part in (seen.take(is_before), seen.take(~is_before))
        for start in range(0, len(part.prompt), STEP_REQUESTS)
    ]
