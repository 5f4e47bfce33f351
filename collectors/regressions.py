"""Watches TTFT of every endpoint: what is new in the store goes through the detectors of its groups."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence

from collectors.complaints import Complaints
from tierscope.analytics.regression.attribution import Cause
from tierscope.analytics.regression.detector import DEFAULTS, Detector, DetectorSettings, Regression, State
from tierscope.analytics.regression.endpoint import EndpointWatch
from tierscope.analytics.regression.groups import Group
from tierscope.analytics.regression.seen import Remembered
from tierscope.analytics.regression.words import named, sentence, since
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import TierscopeError
from tierscope.domain.window import RequestWindow, TimeSpan, changes_within
from tierscope.domain.worker import PATIENCE_SECONDS, Worker
from tierscope.registry import regression_metrics as metrics
from tierscope.registry.types import Sample
from tierscope.storage.reader import Reader

log = logging.getLogger(__name__)

LATE_SECONDS = 30.0
"""A request is stored after its first token: younger admissions than this may not all be there."""
STRIDE_SECONDS = 3600.0
"""Most history read at once."""


class _Watched:
    """An endpoint's detectors, how far they have read, and what they show."""

    def __init__(
        self,
        deployment: Deployment,
        from_unix_seconds: float,
        settings: DetectorSettings,
        remembered: Remembered,
    ) -> None:
        self.deployment = deployment
        self.watch = EndpointWatch(settings, remembered=remembered)
        self.read_until = from_unix_seconds
        self.shown: tuple[Sample, ...] = tuple(self._of(Group(deployment.model, ""), Detector(settings)))

    @property
    def name(self) -> tuple[str, str]:
        return self.deployment.namespace, self.deployment.endpoint

    def show(self) -> None:
        """Show where the detectors stand now; until anything was served, one that learns."""
        detectors = self.watch.detectors()
        if detectors:
            self.shown = tuple(one for each in detectors.items() for one in self._of(*each))

    def _of(self, group: Group, detector: Detector) -> Iterator[Sample]:
        labels = (*self.name, *group)
        for state in State:
            yield Sample(metrics.DETECTOR_STATE, (*labels, state), int(detector.state is state))
        yield Sample(metrics.REGRESSIONS, labels, detector.found)
        if (latest := detector.latest()) is not None:
            yield Sample(metrics.TTFT_EXPECTED, labels, latest.ratio)
            for cause in Cause:
                yield Sample(metrics.TTFT_RISE, (*labels, cause), latest.rises[cause])
        if (raised := detector.regression) is not None:
            guilty = (*labels, *_guilty(raised))
            yield Sample(metrics.TTFT_REGRESSION, guilty, raised.ratio)
            yield Sample(metrics.TTFT_REGRESSION_SECONDS, guilty, raised.extra_seconds)


class RegressionWatcher(Worker):
    """Reads every `regress_seconds` what came into the store, and at first `history_seconds` of the past.

    So a collector that restarts has learnt what is usual before it goes on. An endpoint that cannot be read
    keeps what was found, and does not disturb the others.
    """

    def __init__(
        self,
        reader: Reader,
        deployments: Callable[[], Sequence[Deployment]],
        complaints: Complaints,
        *,
        regress_seconds: float,
        history_seconds: float,
        clock: Callable[[], float],
        settings: DetectorSettings = DEFAULTS,
    ) -> None:
        super().__init__("regressions", patience_seconds=PATIENCE_SECONDS)
        self._reader = reader
        self._complaints = complaints
        self._regress_seconds = regress_seconds
        self._clock = clock
        self._history_seconds = history_seconds
        self._settings = settings
        self._deployments = deployments
        self._remembered = Remembered()
        self._watched: dict[tuple[str, str], _Watched] = {}

    def samples(self) -> Iterator[Sample]:
        """Yield where every detector stands and what it raises."""
        for watched in tuple(self._watched.values()):
            yield from watched.shown

    def look(self) -> None:
        """Read once what is new of every endpoint."""
        for watched in self._known():
            who = f"regressions of {'/'.join(watched.name)}"
            try:
                self._catch_up(watched)
            except TierscopeError as error:
                self._complaints.say(who, error)
            except Exception:  # one endpoint's numbers must not cost the others their detector
                log.exception("%s failed", who)
            else:
                self._complaints.over(who)

    def _known(self) -> list[_Watched]:
        """Every endpoint there is now; one that is gone is forgotten."""
        begin = self._clock() - self._history_seconds
        before = self._watched
        self._watched = {
            (one.namespace, one.endpoint): before.get((one.namespace, one.endpoint))
            or _Watched(one, begin, self._settings, self._remembered)
            for one in self._deployments()
        }
        return list(self._watched.values())

    def _run(self) -> None:
        while True:
            self.look()
            if self._stopping.wait(self._regress_seconds):
                return

    def _catch_up(self, watched: _Watched) -> None:
        until = self._clock() - LATE_SECONDS
        name = watched.name
        while watched.read_until < until and not self._stopping.is_set():
            span = TimeSpan(watched.read_until, min(until, watched.read_until + STRIDE_SECONDS))
            window = self._reader.window(*name, span)
            is_last = span.end_unix_seconds >= until
            if is_last:
                span = _stored(window, span)
            samples = self._reader.samples(*name, span).samples
            changes = changes_within(self._reader.deployments(*name, span), span)
            for group, found in watched.watch.feed(window, samples, changes):
                alone = len(watched.watch.detectors()) == 1
                log.warning("%s", sentence(found, named("/".join(name), group, alone=alone)))
            watched.watch.forget()
            watched.read_until = span.end_unix_seconds
            if is_last:
                break
        watched.show()


def _stored(window: RequestWindow, span: TimeSpan) -> TimeSpan:
    """What of the latest span can be read for good.

    Where its end is without requests they may still be on their way: a collector that was down, or lags, gets
    them later. Then it is read on from the newest that is there.
    """
    newest = float(window.at_unix_seconds[-1]) if window.requests else span.start_unix_seconds
    if span.end_unix_seconds - newest <= LATE_SECONDS:
        return span
    end = math.nextafter(newest, math.inf) if window.requests else newest
    return TimeSpan(span.start_unix_seconds, end)


def _guilty(raised: Regression) -> tuple[str, str, str, str]:
    """Cause, tier, reason and since when, as labels."""
    found = raised.attribution
    tier = "none" if found.tier is None else found.tier.value
    return found.cause.value, tier, found.reason.value or "none", since(raised)
