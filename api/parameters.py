"""What several routes ask for and refuse alike: names, spans of time, pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Path, Query

from api.problems import NotFound
from tierscope.domain.errors import BadInput
from tierscope.domain.window import TimeSpan
from tierscope.storage.reader import Reader

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


@dataclass(frozen=True, slots=True)
class Asked:
    """A span of time as it was asked for, in unix seconds; None: left out."""

    start_unix_seconds: float | None
    end_unix_seconds: float | None

    def span(self, clock: Clock, default_seconds: float = DEFAULT_SPAN_SECONDS) -> TimeSpan:
        """The span that is meant; raises `BadInput` for one that ends before it starts."""
        last = clock() if self.end_unix_seconds is None else self.end_unix_seconds
        first = last - default_seconds if self.start_unix_seconds is None else self.start_unix_seconds
        if not first < last:
            raise BadInput(
                f"the span ends at {last} and does not start before that, but at {first}",
                where="start, end",
                fix="give a start before the end, both in unix seconds",
            )
        return TimeSpan(first, last)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: at most `limit` entries, after so many others."""

    limit: int
    after: int

    def of(self, items: Sequence[Item]) -> tuple[tuple[Item, ...], int | None]:
        """The entries, and what to pass over for the next page; None after the last."""
        following = self.after + self.limit
        return tuple(items[self.after : following]), following if following < len(items) else None


def known_by(reader: Reader, namespace: str, name: str, *, where: str) -> None:
    """Raise `NotFound` for an endpoint of which the store knows nothing; `where` is the kind of resource."""
    if (namespace, name) not in reader.endpoints():
        raise NotFound(
            f"the store has nothing of {namespace}/{name}",
            where=f"/v1/{where}/{namespace}/{name}",
            fix="check the names under exporter.engines",
        )


async def _asked(start: Start = None, end: End = None) -> Asked:
    return Asked(start, end)


async def _page(limit: Limit = 100, after: After = 0) -> Page:
    return Page(limit, after)


During = Annotated[Asked, Depends(_asked)]
"""Takes `start` and `end`."""
Paged = Annotated[Page, Depends(_page)]
"""Takes `limit` and `after`."""
