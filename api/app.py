"""The HTTP API: a factory, and thin routes over a store's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from api.access import Access
from api.advice_routes import serve_advice
from api.answers import Completeness, Configurations, Coverage, Health, Source, Tokens, Totals
from api.conditional import IfNoneMatch, conditional_of
from api.explanations import Explainer, serve_explanations
from api.guard import Guard, Limits
from api.outcomes import serve_outcomes
from api.parameters import (
    HISTORY_SECONDS,
    After,
    Clock,
    End,
    Limit,
    Name,
    Namespace,
    Start,
    page_of,
    span_of,
)
from api.problems import NotFound, Problem, answer_problems, describe_problems
from api.regressions import serve_regressions
from api.report_page import serve_report
from tierscope.advice.readings import completeness_ratio, of_endpoint
from tierscope.registry.types import Sample
from tierscope.storage.reader import Reader
from tierscope.telemetry.prometheus import SampleCollector


def create_app(
    reader: Reader,
    clock: Clock,
    *,
    samples: Callable[[], Iterable[Sample]] = lambda: (),
    access: Access | None = None,
    limits: Limits | None = None,
    keep_seconds: float = 0.0,
) -> FastAPI:
    """Make the API over a reader; `samples` are served on /metrics. Nothing is read before a request.

    A recommendation that is polled may be `keep_seconds` old, and ten times that while it is asked for anew.
    Without `access` everybody may ask everything: bind it to loopback then.
    """
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
    app.add_middleware(Guard, access=access, limits=limits or Limits())
    serve_advice(app, reader, clock, keep_seconds)
    _serve_sums(app, reader, clock)
    serve_regressions(app, reader, clock)
    explainer = Explainer(reader, clock)
    serve_explanations(app, explainer)
    serve_outcomes(app, reader, clock, explainer.turns)
    serve_report(app, reader, explainer, clock)
    _serve_operations(app, reader, samples)
    describe_problems(app)
    return app


def _serve_sums(app: FastAPI, reader: Reader, clock: Clock) -> None:
    @app.get("/v1/totals/{namespace}/{name}", tags=["history"])
    def totals(namespace: Namespace, name: Name, start: Start = None, end: End = None) -> Totals:
        """Prompt tokens by the tier that served them, by our records and by the engines' own counters."""
        span = span_of(start, end, clock)
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
            records=Tokens.of(reader.totals(namespace, name, span).tokens),
            engines=Tokens.of(reader.engine_totals(namespace, name, span).tokens),
            completeness_ratio=completeness_ratio(of_endpoint(reader.coverage(span), namespace, name)),
        )

    @app.get("/v1/deployments/{namespace}/{name}", tags=["history"], response_model=Configurations)
    def deployments(
        namespace: Namespace,
        name: Name,
        start: Start = None,
        end: End = None,
        limit: Limit = 100,
        after: After = 0,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """The endpoint's configurations, newest first: sizes, routing, and how it is wired up."""
        span = span_of(start, end, clock, HISTORY_SECONDS)
        page, following = page_of(reader.deployments(namespace, name, span)[::-1], after, limit)
        return conditional_of(Configurations(page, following), if_none_match)

    @app.get("/v1/completeness/{namespace}/{name}", tags=["history"])
    def completeness(namespace: Namespace, name: Name, start: Start = None, end: End = None) -> Completeness:
        """Share of the endpoint's request records that arrived, and the sources it rests on."""
        span = span_of(start, end, clock)
        covered = tuple(of_endpoint(reader.coverage(span), namespace, name))
        return Completeness(
            namespace,
            name,
            span.start_unix_seconds,
            span.end_unix_seconds,
            completeness_ratio(covered),
            tuple(Source.of(part) for part in covered),
        )

    @app.get("/v1/coverage", tags=["history"])
    def coverage(start: Start = None, end: End = None) -> Coverage:
        """How much of every source's stream arrived: what the other numbers rest on."""
        span = span_of(start, end, clock)
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
