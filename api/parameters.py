"""Parameters that several routes share: names, spans of time, pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Path, Query

from tierscope.domain.errors import BadInput
from tierscope.domain.window import TimeSpan

Clock = Callable[[], float]
Item = TypeVar("Item")

DEFAULT_SPAN_SECONDS = 3600.0
"""Span of sums where none is asked for."""
HISTORY_SECONDS = 7 * 24 * 3600.0
"""Span of what changes seldom: configurations and advice."""
MOST_UNIX_SECONDS = 253_402_300_800.0
"""The end of the year 9999; later times cannot be written down."""

Namespace = Annotated[str, Path(description="Namespace of the endpoint.")]
Name = Annotated[str, Path(description="Name of the endpoint.")]
Start = Annotated[
    float | None,
    Query(
        description="Unix seconds; an hour before `end` for sums, a week for history, if left out.",
        allow_inf_nan=False,
        ge=0,
        le=MOST_UNIX_SECONDS,
    ),
]
End = Annotated[
    float | None,
    Query(
        description="Unix seconds, not included; now if left out.",
        allow_inf_nan=False,
        ge=0,
        le=MOST_UNIX_SECONDS,
    ),
]
Limit = Annotated[int, Query(description="Most entries of one answer.", ge=1, le=500)]
After = Annotated[
    int, Query(description="How many entries to pass over: `next` of the answer before.", ge=0, le=2**31)
]


def span_of(
    start: float | None, end: float | None, clock: Clock, default_seconds: float = DEFAULT_SPAN_SECONDS
) -> TimeSpan:
    """The span that is asked for; raises `BadInput` for one that ends before it starts."""
    last = clock() if end is None else end
    first = last - default_seconds if start is None else start
    if not first < last:
        raise BadInput(
            f"the span ends at {last} and does not start before that, but at {first}",
            where="start, end",
            fix="give a start before the end, both in unix seconds",
        )
    return TimeSpan(first, last)


def page_of(items: Sequence[Item], after: int, limit: int) -> tuple[tuple[Item, ...], int | None]:
    """One page of a list, and what to pass over for the next; None after the last."""
    page = tuple(items[after : after + limit])
    return page, after + limit if after + limit < len(items) else None
