"""The regressions of an endpoint, judged from the store when they are asked for."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import JsonValue

from api.answers import Regressions
from api.parameters import DEFAULT_SPAN_SECONDS, Clock, Name, Namespace, known_by
from tierscope.analytics.regression.report import regress
from tierscope.domain.errors import BadInput
from tierscope.domain.window import TimeSpan, changes_within
from tierscope.storage.reader import Reader

MOST_LEARN_SECONDS = 48 * 3600.0

Since = Annotated[
    float | None,
    Query(description="Unix seconds: judge what came after; an hour ago if left out.", allow_inf_nan=False),
]
Learn = Annotated[
    float,
    Query(
        description="Seconds of history before that, which say what is usual.", gt=0, le=MOST_LEARN_SECONDS
    ),
]


def serve_regressions(app: FastAPI, reader: Reader, clock: Clock) -> None:
    """Add the route."""

    @app.get("/v1/regressions/{namespace}/{name}", tags=["advice"], response_model=Regressions)
    def regressions(
        namespace: Namespace, name: Name, since: Since = None, learn_seconds: Learn = 6 * 3600.0
    ) -> dict[str, JsonValue]:
        """Whether TTFT got worse than the prompts explain, since when, and who did it."""
        now = clock()
        start = now - DEFAULT_SPAN_SECONDS if since is None else since
        if start >= now:
            raise BadInput(f"{start} is not in the past", where="since", fix="give unix seconds before now")
        known_by(reader, namespace, name, where="regressions")
        span = TimeSpan(start - learn_seconds, now)
        return regress(
            reader.evidence(namespace, name, span),
            f"{namespace}/{name}",
            start,
            changes_unix_seconds=changes_within(reader.deployments(namespace, name, span), span),
        ).to_json()
