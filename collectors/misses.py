"""Counts computed tokens by why they were computed, and what they took, as they come into the store."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np

from collectors.complaints import Complaints
from tierscope.advice.explain import MissCauses, misses_of
from tierscope.advice.sizing.latency import ttft_model
from tierscope.advice.thresholds import MOST_TTFT_RECORDS
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import TierscopeError
from tierscope.domain.window import TimeSpan
from tierscope.domain.worker import PATIENCE_SECONDS, Worker
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS
from tierscope.registry.types import Metric, Sample
from tierscope.storage.reader import Reader

log = logging.getLogger(__name__)

LATE_SECONDS = 30.0
"""A request is stored after its first token: younger admissions than this may not all be there."""
LEAST_PAUSE_SECONDS = 60.0
PAUSES_A_LOOK = 20.0
"""Pauses are so many times as long as a look took, a twentieth of a core, unless that is too long a time."""
MOST_BETWEEN_SECONDS = 180.0
"""From look to look: the five minutes that boards take rates over have a count then, at a scrape a minute."""

Endpoint = tuple[str, str]
Series = tuple[Metric, tuple[str, ...]]


class MissCounter(Worker):
    """Gives every request that is new in the store its causes, with `window_seconds` before it as the past.

    It reads an endpoint in its `turn`: whoever else holds a window waits for that.

    What a computed token takes is read from the newest requests, counted ones among them: a look alone has
    too few. Where it cannot be told, the look adds to the tokens alone.

    Each request is counted once, but for what one exporter tells more than `LATE_SECONDS` after others of its
    endpoint told theirs: that is not counted. Nor is what came before the first look at an endpoint, which
    only fills the modelled tiers. One that went to another collector and came back is looked at anew. An
    endpoint that cannot be read keeps its counts, and does not disturb the others.
    """

    def __init__(
        self,
        reader: Reader,
        deployments: Callable[[], Sequence[Deployment]],
        complaints: Complaints,
        *,
        window_seconds: float,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        turn: AbstractContextManager[object],
    ) -> None:
        super().__init__("misses", patience_seconds=PATIENCE_SECONDS)
        self._turn = turn
        self._reader = reader
        self._deployments = deployments
        self._complaints = complaints
        self._window_seconds = window_seconds
        self._clock = clock
        self._monotonic = monotonic
        self._counted_until: dict[Endpoint, float] = {}
        self._counts: dict[Endpoint, dict[Series, float]] = {}

    def samples(self) -> Iterator[Sample]:
        """Yield every endpoint's counts; none of a kind before the first of that kind."""
        for counts in tuple(self._counts.values()):
            for (metric, labels), value in counts.items():
                yield Sample(metric, labels, value)

    def look(self) -> None:
        """Count once what is new of every endpoint."""
        deployments = self._deployments()
        begin, before = self._clock() - LATE_SECONDS, self._counted_until
        here = [(one.namespace, one.endpoint) for one in deployments]
        self._counted_until = {endpoint: before.get(endpoint, begin) for endpoint in here}
        for deployment in deployments:
            if self._stopping.is_set():
                return
            who = f"misses of {deployment.namespace}/{deployment.endpoint}"
            try:
                with self._turn:
                    self._catch_up(deployment)
            except TierscopeError as error:
                self._complaints.say(who, error)
            except Exception:  # one endpoint's numbers must not cost the others their counts
                log.exception("%s failed", who)
            else:
                self._complaints.over(who)

    def _run(self) -> None:
        while True:
            began = self._monotonic()
            self.look()
            took = self._monotonic() - began
            if self._stopping.wait(pause_seconds(took)):
                return

    def _catch_up(self, deployment: Deployment) -> None:
        endpoint = (deployment.namespace, deployment.endpoint)
        until = self._clock() - LATE_SECONDS
        since = max(self._counted_until[endpoint], until - self._window_seconds)
        evidence = self._reader.evidence(*endpoint, TimeSpan(until - self._window_seconds, until))
        first = int(np.searchsorted(evidence.window.at_unix_seconds, since))
        if first == evidence.window.requests:
            return
        priced_from = max(0, min(first, evidence.window.requests - MOST_TTFT_RECORDS))
        model = ttft_model(evidence.window, priced_from)
        found = misses_of(evidence, deployment, first, model)
        if found.causes is None:
            return
        counts = dict(self._counts.get(endpoint, {}))
        for series, value in _figures(endpoint, found):
            counts[series] = counts.get(series, 0) + value
        self._counts[endpoint] = counts  # all at once: a page has tokens, seconds and money of the same looks
        # Not until `until`: what lies between may be on its way, as after the store refused for a while.
        newest = float(evidence.window.at_unix_seconds[-1])
        self._counted_until[endpoint] = math.nextafter(newest, math.inf)


def pause_seconds(took_seconds: float) -> float:
    """How long to rest after a look that took so long: at least as long, so at most half a core goes."""
    most = max(MOST_BETWEEN_SECONDS - took_seconds, took_seconds)
    return min(max(LEAST_PAUSE_SECONDS, PAUSES_A_LOOK * took_seconds), most)


def _figures(endpoint: Endpoint, found: MissCauses) -> Iterator[tuple[Series, float]]:
    """What one look adds to each series; nothing to those it cannot tell."""
    for cause, tokens in (found.causes or {}).items():
        yield (MISS_TOKENS, (*endpoint, cause)), tokens
    for cause, seconds in (found.seconds or {}).items():
        yield (MISS_SECONDS, (*endpoint, cause)), seconds
    for cause, money in (found.money or {}).items():
        yield (MISS_COST, (*endpoint, cause, found.currency or "")), money
