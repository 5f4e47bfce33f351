"""The report at `/`: one page for people, put together from the documents that the other routes serve."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import FastAPI, Query, Response

from api.explanations import DEFAULT_HISTORY_SECONDS, Explainer, explanation_of
from api.parameters import HISTORY_SECONDS, Asked, Clock
from api.problems import NotFound
from api.turns import Kept
from tierscope.advice.afterwards import outcomes_of
from tierscope.advice.compared import Compared
from tierscope.advice.document import Recommendation, parse_recommendation
from tierscope.advice.explain import Explanation
from tierscope.advice.foretold import Foretold
from tierscope.domain.errors import BadInput, TierscopeError
from tierscope.domain.events import SourceCoverage, of_endpoint
from tierscope.domain.window import TimeSpan
from tierscope.report.material import Material
from tierscope.report.page import Page, render, render_none
from tierscope.storage.reader import Reader

T = TypeVar("T")
KEEP_SECONDS = 5.0
"""How old a page may be that is sent again: it is several megabytes with its charts' script."""
MOST_HOURS = 24.0

Endpoint = Annotated[str | None, Query(description="Which one, as NAMESPACE/NAME; the first if left out.")]
Hours = Annotated[float, Query(description="Span that is shown, up to now.", gt=0, le=MOST_HOURS)]


def serve_report(
    app: FastAPI, reader: Reader, explainer: Explainer, clock: Clock, foretold: Foretold
) -> None:
    """Add the page."""
    kept: Kept[Page] = Kept(clock, KEEP_SECONDS, most=4)

    def made(endpoint: str | None, hours: float) -> Page:
        names = reader.endpoints()
        if not names:
            return render_none("No data, because the store has heard of no endpoint yet.")
        who = next((name for name in names if endpoint in {None, "/".join(name)}), None)
        if who is None:
            known = ", ".join("/".join(name) for name in names)
            raise NotFound(f"there is no endpoint {endpoint}", where="/", fix=f"ask for one of {known}")
        end = clock()

        def explain() -> Explanation:
            start = None if hours == 1.0 else end - hours * 3600
            return explainer.explain(*who, Asked(start, None), DEFAULT_HISTORY_SECONDS)

        span = TimeSpan(end - hours * 3600, end)
        return render(material_of(reader, who, span, clock(), foretold, explain))

    @app.get("/", tags=["report"], response_class=Response, responses={200: {"content": {"text/html": {}}}})
    async def report(endpoint: Endpoint = None, hours: Hours = 1.0) -> Response:
        """Everything about an endpoint on one page: advice, findings, token flow, curves, causes, TTFT."""
        page = await explainer.turns.run(lambda: kept.get((endpoint, hours), lambda: made(endpoint, hours)))
        headers = {
            "Content-Security-Policy": page.policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        return Response(page.html, media_type="text/html", headers=headers)


def material_of(
    reader: Reader,
    who: tuple[str, str],
    span: TimeSpan,
    now_unix_seconds: float,
    foretold: Foretold,
    explain: Callable[[], Explanation] | None = None,
) -> Material:
    """Read what a report is made of. What cannot be read is absent, with the reason; the rest is there.

    Raises `StoreUnusable` only where the store answers nothing at all.
    """
    absent: list[str] = []
    names = reader.endpoints()
    explanation = _told(
        explain or (lambda: explanation_of(reader, who, span, DEFAULT_HISTORY_SECONDS)),
        "What happened to the tokens",
        absent,
    )
    return Material(
        namespace=who[0],
        endpoint=who[1],
        read_at_unix_seconds=now_unix_seconds,
        recommendation=_told(lambda: _recommendation(reader, who), "The recommendation", absent),
        explanation=explanation,
        engines=_told(lambda: reader.engine_totals(*who, span).tokens, "The engines' own counters", absent),
        sources=_told(lambda: _sources(reader, who, span), "The sources", absent) or (),
        followed=_told(lambda: _followed(reader, who, now_unix_seconds, foretold), "Earlier changes", absent)
        or (),
        absent=tuple(absent),
        others=tuple(name for name in names if name != who),
    )


def _told(read: Callable[[], T], what: str, absent: list[str]) -> T | None:
    try:
        return read()
    except TierscopeError as error:
        absent.append(f"{what} could not be read: {error.what} ({error.fix}).")
        return None


def _followed(
    reader: Reader, who: tuple[str, str], now_unix_seconds: float, foretold: Foretold
) -> tuple[Compared, ...]:
    span = TimeSpan(now_unix_seconds - HISTORY_SECONDS, now_unix_seconds)
    return outcomes_of(reader, who, span, now_unix_seconds, foretold)


def _recommendation(reader: Reader, who: tuple[str, str]) -> Recommendation | None:
    body = reader.latest_recommendation(*who)
    if body is None:
        return None
    document = json.loads(body)
    if not isinstance(document, dict):
        raise BadInput("it is not a JSON document", where="the store", fix="see what wrote it")
    return parse_recommendation(document)


def _sources(reader: Reader, who: tuple[str, str], span: TimeSpan) -> tuple[SourceCoverage, ...]:
    return of_endpoint(reader.coverage(span), *who)
