"""What became of changes, advised or not: what was predicted, and what then happened."""

from __future__ import annotations

from fastapi import FastAPI, Response

from api.answers import Outcomes
from api.conditional import IfNoneMatch, conditional_of
from api.parameters import HISTORY_SECONDS, After, Clock, End, Limit, Name, Namespace, Start, page_of, span_of
from api.turns import Kept, OneAtATime
from tierscope.advice.afterwards import outcomes_of
from tierscope.advice.compared import Compared
from tierscope.advice.foretold import Foretold
from tierscope.storage.reader import Reader

KEEP_SECONDS = 60.0


def serve_outcomes(app: FastAPI, reader: Reader, clock: Clock, turns: OneAtATime, foretold: Foretold) -> None:
    """Add the route."""
    kept: Kept[tuple[Compared, ...]] = Kept(clock, KEEP_SECONDS)

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
        """Changes of the span, newest first: predicted and observed side by side.

        Those that came to be as advised, and other changes of the sizes of L1 and L2 alone, foretold from the
        six hours before them (`advised_at` is null). Measured from an hour after the change on.
        """
        span = span_of(start, end, clock, HISTORY_SECONDS)
        asked = (namespace, name, start, end)
        found = await turns.run(
            lambda: kept.get(asked, lambda: outcomes_of(reader, asked[:2], span, clock(), foretold))
        )
        page, following = page_of(found, after, limit)
        return conditional_of(Outcomes(page, following), if_none_match)
