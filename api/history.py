"""What the store has of the past: tokens, configurations, and how much of every stream arrived."""

from __future__ import annotations

from fastapi import FastAPI, Response

from api.answers import Completeness, Configurations, Coverage, Source, Tokens, Totals
from api.conditional import IfNoneMatch, conditional_of
from api.parameters import HISTORY_SECONDS, After, Clock, End, Limit, Name, Namespace, Start, page_of, span_of
from api.problems import NotFound
from tierscope.advice.readings import completeness_ratio
from tierscope.domain.events import of_endpoint
from tierscope.storage.reader import Reader


def serve_history(app: FastAPI, reader: Reader, clock: Clock) -> None:
    """Add the routes."""
    _serve_totals(app, reader, clock)
    _serve_deployments(app, reader, clock)
    _serve_coverage(app, reader, clock)


def _serve_totals(app: FastAPI, reader: Reader, clock: Clock) -> None:
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
        recorded = reader.totals(namespace, name, span)
        return Totals(
            namespace,
            name,
            span.start_unix_seconds,
            span.end_unix_seconds,
            records=Tokens.of(recorded.tokens),
            engines=Tokens.of(reader.engine_totals(namespace, name, span).tokens),
            completeness_ratio=completeness_ratio(recorded.coverage),
        )


def _serve_deployments(app: FastAPI, reader: Reader, clock: Clock) -> None:
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


def _serve_coverage(app: FastAPI, reader: Reader, clock: Clock) -> None:
    @app.get("/v1/completeness/{namespace}/{name}", tags=["history"])
    def completeness(namespace: Namespace, name: Name, start: Start = None, end: End = None) -> Completeness:
        """Share of the endpoint's request records that arrived, and the sources it rests on."""
        span = span_of(start, end, clock)
        covered = of_endpoint(reader.coverage(span), namespace, name)
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
