"""The HTTP API: a factory, and thin routes over a store's reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import FastAPI, Header, Path, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from api.answers import Coverage, Health, Recommendations, RecommendationSummary, Source, Tokens, Totals
from api.problems import NotFound, Problem, answer_problems
from tierscope.advice.document import Recommendation
from tierscope.advice.readings import completeness_ratio
from tierscope.domain.errors import BadInput
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceKind
from tierscope.domain.window import TimeSpan
from tierscope.registry.types import Sample
from tierscope.storage.reader import Reader
from tierscope.telemetry.prometheus import SampleCollector

Clock = Callable[[], float]

DEFAULT_SPAN_SECONDS = 3600.0
"""Span of totals and coverage where none is asked for."""

Namespace = Annotated[str, Path(description="Namespace of the endpoint.")]
Name = Annotated[str, Path(description="Name of the endpoint.")]
Start = Annotated[
    float | None,
    Query(description="Unix seconds; an hour before `end` if left out.", allow_inf_nan=False),
]
End = Annotated[
    float | None, Query(description="Unix seconds, not included; now if left out.", allow_inf_nan=False)
]
IfNoneMatch = Annotated[str | None, Header(description="The ETag of the document you have.")]


def create_app(
    reader: Reader, clock: Clock, *, samples: Callable[[], Iterable[Sample]] = lambda: ()
) -> FastAPI:
    """Make the API over a reader; `samples` are served on /metrics. Nothing is read before a request."""
    app = FastAPI(
        title="Tierscope",
        version="1",
        description="Which KV-cache tier served each token, and what to change.",
        responses={
            "4XX": {"model": Problem, "description": "What is wrong, where, and how to fix it."},
            "5XX": {"model": Problem, "description": "What is wrong, where, and how to fix it."},
        },
    )
    answer_problems(app)
    _serve_recommendations(app, reader)
    _serve_sums(app, reader, clock)
    _serve_operations(app, reader, samples)
    return app


def _serve_recommendations(app: FastAPI, reader: Reader) -> None:
    @app.get("/v1/recommendations", tags=["advice"])
    def recommendations() -> Recommendations:
        """List the newest recommendation of every endpoint, in short."""
        found = ((name, reader.latest_recommendation(*name)) for name in reader.endpoints())
        return Recommendations(tuple(_summary(*name, body) for name, body in found if body is not None))

    @app.get("/v1/recommendations/{namespace}/{name}", tags=["advice"], response_model=Recommendation)
    def recommendation(namespace: Namespace, name: Name, if_none_match: IfNoneMatch = None) -> Response:
        """The endpoint's newest recommendation: status, evidence, changes and how to apply them.

        Send its ETag back in If-None-Match: 304 says that there is nothing new.
        """
        body = reader.latest_recommendation(namespace, name)
        if body is None:
            raise NotFound(
                f"there is no recommendation for {namespace}/{name} yet",
                where=f"/v1/recommendations/{namespace}/{name}",
                fix="add it to collector.deployments and wait for collector.advise_seconds, or see "
                "/v1/recommendations for those that have one",
            )
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if if_none_match is not None and _matches(if_none_match, etag):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)


def _serve_sums(app: FastAPI, reader: Reader, clock: Clock) -> None:
    @app.get("/v1/totals/{namespace}/{name}", tags=["history"])
    def totals(namespace: Namespace, name: Name, start: Start = None, end: End = None) -> Totals:
        """Prompt tokens by the tier that served them, by our records and by the engines' own counters."""
        span = _span(start, end, clock)
        if (namespace, name) not in reader.endpoints():
            raise NotFound(
                f"the store has nothing of {namespace}/{name}",
                where=f"/v1/totals/{namespace}/{name}",
                fix="check the names under exporter.engines",
            )
        return Totals(
            namespace,
            name,
            span.start_unix_seconds,
            span.end_unix_seconds,
            records=Tokens.of(reader.totals(namespace, name, span)),
            engines=Tokens.of(reader.engine_totals(namespace, name, span)),
            completeness_ratio=completeness_ratio(_of_endpoint(reader.coverage(span), namespace, name)),
        )

    @app.get("/v1/coverage", tags=["history"])
    def coverage(start: Start = None, end: End = None) -> Coverage:
        """How much of every source's stream arrived: what the other numbers rest on."""
        span = _span(start, end, clock)
        sources = tuple(Source.of(part) for part in reader.coverage(span))
        return Coverage(span.start_unix_seconds, span.end_unix_seconds, sources)


def _serve_operations(app: FastAPI, reader: Reader, samples: Callable[[], Iterable[Sample]]) -> None:
    registry = CollectorRegistry()
    registry.register(SampleCollector(samples))

    @app.get("/health", tags=["operations"])
    def health() -> Health:
        """Whether this process answers; it asks nobody else."""
        return Health("ok")

    @app.get("/ready", tags=["operations"])
    def ready() -> Health:
        """Whether the collector answers, too; 503 says that it does not."""
        reader.endpoints()
        return Health("ready")

    @app.get("/metrics", tags=["operations"], response_class=Response)
    def metrics() -> Response:
        """This process in the Prometheus text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _summary(namespace: str, endpoint: str, body: bytes) -> RecommendationSummary:
    document = json.loads(body)
    return RecommendationSummary(
        namespace=namespace,
        endpoint=endpoint,
        status=document["status"],
        generated_at=document["generated_at"],
        changes=tuple(change["id"] for change in document["changes"]),
        href=f"/v1/recommendations/{namespace}/{endpoint}",
    )


def _span(start: float | None, end: float | None, clock: Clock) -> TimeSpan:
    last = clock() if end is None else end
    first = last - DEFAULT_SPAN_SECONDS if start is None else start
    if not first < last:
        raise BadInput(
            f"the span ends at {last} and does not start before that, but at {first}",
            where="start, end",
            fix="give a start before the end, both in unix seconds",
        )
    return TimeSpan(first, last)


def _matches(if_none_match: str, etag: str) -> bool:
    """Whether one of the tags a client sent is the document's (weak comparison, RFC 9110)."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def _of_endpoint(
    coverage: Iterable[SourceCoverage], namespace: str, endpoint: str
) -> Iterable[SourceCoverage]:
    """Leave out the hooks of other endpoints' engines; feeds carry everybody's records."""
    own = f"{namespace}/{endpoint}/"
    return (
        part
        for part in coverage
        if part.source.kind is not SourceKind.VLLM_HOOK or part.source.owner.startswith(own)
    )
