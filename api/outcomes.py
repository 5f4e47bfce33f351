"""What became of advice that was followed: what was predicted, and what then happened."""

from __future__ import annotations

from fastapi import FastAPI, Response

from api.answers import Outcomes
from api.conditional import IfNoneMatch, conditional_of
from api.parameters import HISTORY_SECONDS, After, Clock, End, Limit, Name, Namespace, Start, page_of, span_of
from api.turns import Kept, OneAtATime
from tierscope.advice.afterwards import Followed, outcomes_of
from tierscope.storage.reader import Reader

KEEP_SECONDS = 60.0


def serve_outcomes(app: FastAPI, reader: Reader, clock: Clock, turns: OneAtATime) -> None:
    """Add the route."""
    kept: Kept[tuple[Followed, ...]] = Kept(clock, KEEP_SECONDS)

    @app.get("/v1/recommendations/{namespace}/{name}/outcomes", tags=["advice"], response_model=Outcomes)
    async def outcomes(
        namespace: Namespace,
        name: Name,
        start: Start = None,
        end: End = None,
        limit: Limit = 100,
        after: After = 0,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Advice of the span that was followed, newest first: predicted and observed side by side.

        A change is followed if the configuration came to be as advised. Measured from an hour after that on.
        """
        span = span_of(start, end, clock, HISTORY_SECONDS)
        asked = (namespace, name, start, end)
        found = await turns.run(
            lambda: kept.get(asked, lambda: outcomes_of(reader, asked[:2], span, clock()))
        )
        page, following = page_of(found, after, limit)
        return conditional_of(Outcomes(page, following), if_none_match)
