"""What became of changes, advised or not: what was predicted, and what then happened."""

from __future__ import annotations

from fastapi import FastAPI, Response

from api.answers import Outcomes
from api.conditional import IfNoneMatch, conditional_of
from api.parameters import HISTORY_SECONDS, Clock, During, Name, Namespace, Paged
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
        namespace: Namespace, name: Name, during: During, part: Paged, if_none_match: IfNoneMatch = None
    ) -> Response:
        """Changes of the span, newest first: predicted and observed side by side.

        Those that came to be as advised, and other changes of the sizes of L1 and L2 alone, foretold from the
        six hours before them (`advised_at` is null). Measured from an hour after the change on.
        """
        span = during.span(clock, HISTORY_SECONDS)
        asked = (namespace, name, during)
        found = await turns.run(
            lambda: kept.get(asked, lambda: outcomes_of(reader, asked[:2], span, clock(), foretold))
        )
        page, following = part.of(found)
        return conditional_of(Outcomes(page, following), if_none_match)
