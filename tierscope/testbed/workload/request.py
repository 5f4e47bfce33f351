"""A request as its client sends it, and the protocol of whoever makes requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One prompt and the length of its answer.

    `hashes` are those of every block that is full once the answer's last token but one is in the
    cache; the prompt's own full blocks come first, and `digests` are those alone, as 8 bytes each.
    """

    request_id: str
    session: str
    at_seconds: float
    prompt_tokens: int
    output_tokens: int
    hashes: Sequence[int]
    digests: Sequence[bytes]
    salt: str | None = None
    traceparent: str | None = None
    abort_after_seconds: float | None = None


class Workload(Protocol):
    """A source of requests in virtual time, which starts at 0."""

    def next_arrival(self) -> Request | None:
        """The next request that comes whatever the engines do; times never fall. None: no more."""
        ...

    def follow_up(self, request: Request, finished_seconds: float) -> Request | None:
        """The request its client sends after this one was answered, if any; not before that time."""
        ...
