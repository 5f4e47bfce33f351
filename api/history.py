"""What the store has of the past: tokens, configurations, and how much of every stream arrived."""

from __future__ import annotations

from fastapi import FastAPI, Response

from api.answers import Completeness, Configurations, Coverage, Source, Tokens, Totals
from api.conditional import IfNoneMatch, conditional_of
from api.parameters import HISTORY_SECONDS, Clock, During, Name, Namespace, Paged, known_by
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
    def totals(namespace: Namespace, name: Name, during: During) -> Totals:
        """Prompt tokens by the tier that served them, by our records and by the engines' own counters."""
        span = during.span(clock)
        known_by(reader, namespace, name, where="totals")
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
        namespace: Namespace, name: Name, during: During, part: Paged, if_none_match: IfNoneMatch = None
    ) -> Response:
        """The endpoint's configurations, newest first: sizes, routing, and how it is wired up."""
        span = during.span(clock, HISTORY_SECONDS)
        page, following = part.of(reader.deployments(namespace, name, span)[::-1])
        return conditional_of(Configurations(page, following), if_none_match)


def _serve_coverage(app: FastAPI, reader: Reader, clock: Clock) -> None:
    @app.get("/v1/completeness/{namespace}/{name}", tags=["history"])
    def completeness(namespace: Namespace, name: Name, during: During) -> Completeness:
        """Share of the endpoint's request records that arrived, and the sources it rests on."""
        span = during.span(clock)
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
    def coverage(during: During) -> Coverage:
        """How much of every source's stream arrived: what the other numbers rest on."""
        span = during.span(clock)
        sources = tuple(Source.of(part) for part in reader.coverage(span))
        return Coverage(span.start_unix_seconds, span.end_unix_seconds, sources)
