"""What a report is made of: documents that others computed, each of which may be absent, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.advice.compared import Compared
from tierscope.advice.document import Recommendation
from tierscope.advice.explain import Explanation
from tierscope.domain.events import SourceCoverage
from tierscope.domain.requests import TokenSplit


@dataclass(frozen=True, slots=True)
class Material:
    """All that is known of one endpoint at one time."""

    namespace: str
    endpoint: str
    read_at_unix_seconds: float
    recommendation: Recommendation | None
    explanation: Explanation | None
    engines: TokenSplit | None
    """What the engines' own counters grew by in the explanation's span; None where that was not read."""
    sources: tuple[SourceCoverage, ...]
    followed: tuple[Compared, ...] = ()
    """Earlier changes, advised or not, newest first."""
    absent: tuple[str, ...] = ()
    """Why something could not be read, in whole sentences."""
    others: tuple[tuple[str, str], ...] = ()
    """The other endpoints there are reports of, by namespace and name."""
