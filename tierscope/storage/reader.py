"""The questions that can be asked of a store, whoever answers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.events import SourceCoverage
from tierscope.domain.window import CoveredSamples, CoveredTokens, Evidence, RequestWindow, TimeSpan


class Reader(Protocol):
    """What a store answers, be it a file or a collector behind a socket. Thread-safe.

    An endpoint is named by namespace and name. Requests belong to the span in which they were admitted.
    What is read from sources' streams comes with their `coverage` in the span: one interval a source, without
    the engines of other endpoints. Every method raises `StoreUnusable` when the store cannot answer.
    """

    def endpoints(self) -> tuple[tuple[str, str], ...]:
        """Return (namespace, endpoint) of every endpoint the store knows, sorted."""
        ...

    def history(self, namespace: str, endpoint: str) -> TimeSpan | None:
        """Return the span from the endpoint's first to its last admission; None if it has none."""
        ...

    def totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        """Sum the tokens of the span's served first admissions.

        An hour of which only sums are kept belongs to the span that its start is in.
        """
        ...

    def engine_totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        """Sum what the engines' own counters grew by in the intervals that end in the span."""
        ...

    def window(self, namespace: str, endpoint: str, span: TimeSpan) -> RequestWindow:
        """Return the span's served first admissions as arrays, oldest first."""
        ...

    def samples(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredSamples:
        """Return readings of the span by holder, oldest first: the endpoint's own L0s, every L1 and L2.

        Of many readings of a holder the last of each of 720 equal parts of their time stay. A value that a
        reading lacks is the latest reported before it.
        """
        ...

    def coverage(self, span: TimeSpan) -> tuple[SourceCoverage, ...]:
        """Return one interval a source: the sum of those that overlap the span. Feeds are sources too."""
        ...

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        """Return all that advice on the endpoint may rest on; other endpoints' engines are left out."""
        ...

    def deployments(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[DeploymentSince, ...]:
        """Return the endpoint's configurations that were in force in the span, oldest first.

        Those that a release before version 6 of the tables wrote are left out.
        """
        ...

    def latest_recommendation(self, namespace: str, endpoint: str) -> bytes | None:
        """Return the endpoint's newest recommendation (JSON); None before the first."""
        ...

    def recommendation_history(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[bytes, ...]:
        """Return the endpoint's recommendations (JSON) that were computed in the span, newest first."""
        ...

    def row_counts(self) -> Mapping[str, int]:
        """Return how many rows each table has."""
        ...
