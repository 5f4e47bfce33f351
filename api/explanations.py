"""What happened to an endpoint's tokens, computed when it is asked for and kept for a moment."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response

from api.conditional import IfNoneMatch, conditional_of
from api.parameters import Asked, Clock, During, Name, Namespace, known_by
from api.turns import Kept, OneAtATime
from tierscope.advice.explain import Explanation, explain
from tierscope.domain.window import TimeSpan
from tierscope.storage.reader import Reader

KEEP_SECONDS = 30.0
"""How old an explanation may be that is given again: pages are loaded together and again."""
DEFAULT_HISTORY_SECONDS = 6 * 3600.0
MOST_HISTORY_SECONDS = 48 * 3600.0

History = Annotated[
    float,
    Query(
        description="Seconds before that which only warm the modelled tiers, so that what they brought in is "
        "not taken for new.",
        ge=0,
        le=MOST_HISTORY_SECONDS,
    ),
]


class Explainer:
    """Explanations of a reader's endpoints, kept for a while. One is computed at a time: see `turns`."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._kept: Kept[Explanation] = Kept(clock, KEEP_SECONDS)
        self.turns = OneAtATime()

    def explain(self, namespace: str, name: str, during: Asked, history_seconds: float) -> Explanation:
        """Explain a span, the last hour if none is given.

        Raises `NotFound` for an endpoint the store does not know, `BadInput` for a span that is none.
        """
        asked = (namespace, name, during, history_seconds)
        return self._kept.get(asked, lambda: self._explain(*asked))

    def _explain(self, namespace: str, name: str, during: Asked, history_seconds: float) -> Explanation:
        span = during.span(self._clock)
        known_by(self._reader, namespace, name, where="explanations")
        return explanation_of(self._reader, (namespace, name), span, history_seconds)


def explanation_of(
    reader: Reader, who: tuple[str, str], span: TimeSpan, history_seconds: float
) -> Explanation:
    """Read what an explanation rests on, and explain."""
    first = max(span.start_unix_seconds - history_seconds, 0.0)
    evidence = reader.evidence(*who, TimeSpan(first, span.end_unix_seconds))
    known = reader.deployments(*who, span)
    return explain(evidence, known[-1].deployment if known else None, who, span)


def serve_explanations(app: FastAPI, explainer: Explainer) -> None:
    """Add the route."""

    @app.get("/v1/explanations/{namespace}/{name}", tags=["history"], response_model=Explanation)
    async def explanations(
        namespace: Namespace,
        name: Name,
        during: During,
        history_seconds: History = DEFAULT_HISTORY_SECONDS,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Which tier served the span's tokens, why the rest was computed, TTFT by tier, shared prefixes.

        Kept for half a minute. What cannot be told is null, with its reason.
        """
        found = await explainer.turns.run(lambda: explainer.explain(namespace, name, during, history_seconds))
        return conditional_of(found, if_none_match)
