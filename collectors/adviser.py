"""Keeps advice fresh: evidence out of the store, a recommendation back into it, endpoint by endpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from collectors.advice_figures import advice_figures
from collectors.complaints import Complaints
from tierscope.advice.afterwards import outcomes_of
from tierscope.advice.compared import Compared
from tierscope.advice.foretold import Foretold
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import TierscopeError
from tierscope.domain.window import Evidence, TimeSpan
from tierscope.domain.worker import PATIENCE_SECONDS, Worker
from tierscope.registry import advice_metrics as metrics
from tierscope.registry.types import Sample
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.store import Store

log = logging.getLogger(__name__)

OUTCOMES_SECONDS = 900.0
"""How long outcomes are kept: documents of weeks are read for them, and hours pass before one is known."""
OUTCOMES_SPAN_SECONDS = 30 * 24 * 3600.0
"""How far back outcomes count: an endpoint is seldom changed, and a model is not right for ever."""
STATUSES = ("recommend", "no_change", "insufficient_evidence")


class Advice(Protocol):
    """A recommendation, as far as keeping it needs to know it."""

    def to_json(self) -> Mapping[str, object]:
        """The document; `status` says in one word what it advises."""
        ...


class Recommend(Protocol):
    """What computes a recommendation: pure, from evidence."""

    def __call__(
        self,
        evidence: Evidence,
        deployment: Deployment,
        *,
        now_unix_seconds: float,
        earlier: Sequence[Compared],
    ) -> Advice:
        """Advise on a deployment; `earlier` is what came of its earlier changes."""
        ...


class Adviser(Worker):
    """Advises on each deployment there is, at once and then every `advise_seconds`.

    It looks at the last `window_seconds`, in its `turn`: whoever else holds a window waits for that. An
    endpoint whose advice fails keeps its last document, which ages; the others are not affected.
    """

    def __init__(  # noqa: PLR0913  where it reads and writes, what it advises on, and its pace
        self,
        store: Store,
        reader: DuckDbReader,
        recommend: Recommend,
        deployments: Callable[[], Sequence[Deployment]],
        complaints: Complaints,
        *,
        advise_seconds: float,
        window_seconds: float,
        clock: Callable[[], float],
        turn: AbstractContextManager[object],
    ) -> None:
        super().__init__("adviser", patience_seconds=PATIENCE_SECONDS)
        self._store = store
        self._reader = reader
        self._turn = turn
        self._recommend = recommend
        self._deployments = deployments
        self._complaints = complaints
        self._advise_seconds = advise_seconds
        self._window_seconds = window_seconds
        self._clock = clock
        self._latest: dict[tuple[str, str], tuple[float, tuple[Sample, ...]]] = {}
        self._foretold = Foretold()
        self._outcomes: dict[tuple[str, str], tuple[float, tuple[Compared, ...]]] = {}

    def samples(self) -> Iterator[Sample]:
        """Yield age, status and figures of each endpoint's latest advice of this process; none before one."""
        now = self._clock()
        for endpoint, (at_unix_seconds, said) in dict(self._latest).items():
            yield Sample(metrics.ADVICE_AGE_SECONDS, endpoint, max(0.0, now - at_unix_seconds))
            yield from said

    def _run(self) -> None:
        while True:
            for deployment in self._deployments():
                if self._stopping.is_set():
                    return
                self._advise(deployment)
            if self._stopping.wait(self._advise_seconds):
                return

    def _advise(self, deployment: Deployment) -> None:
        who = f"advice on {deployment.namespace}/{deployment.endpoint}"
        try:
            with self._turn:
                self._renew(deployment)
        except TierscopeError as error:
            self._complaints.say(who, error)
        except Exception:  # one endpoint's numbers must not cost the others their advice
            log.exception("%s failed", who)
        else:
            self._complaints.over(who)

    def _renew(self, deployment: Deployment) -> None:
        endpoint = (deployment.namespace, deployment.endpoint)
        now = self._clock()
        span = TimeSpan(now - self._window_seconds, now)
        earlier = self._earlier(endpoint, now)  # first: it reads windows of its own, and lets go of them
        evidence = self._reader.evidence(*endpoint, span)
        document = self._recommend(evidence, deployment, now_unix_seconds=now, earlier=earlier).to_json()
        status = str(document["status"])
        self._store.save_recommendation(
            *endpoint,
            status=status,
            document=json.dumps(document, allow_nan=False).encode(),
            at_unix_seconds=now,
        )
        told = (Sample(metrics.ADVICE_STATUS, (*endpoint, one), int(status == one)) for one in STATUSES)
        self._latest[endpoint] = (now, (*told, *advice_figures(endpoint, document)))

    def _earlier(self, endpoint: tuple[str, str], now: float) -> tuple[Compared, ...]:
        """What came of earlier changes; looked up anew when that is old."""
        kept = self._outcomes.get(endpoint)
        if kept is None or now - kept[0] >= OUTCOMES_SECONDS:
            span = TimeSpan(now - OUTCOMES_SPAN_SECONDS, now)
            kept = self._outcomes[endpoint] = (
                now,
                outcomes_of(self._reader, endpoint, span, now, self._foretold),
            )
        return kept[1]
