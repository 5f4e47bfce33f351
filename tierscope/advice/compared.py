"""A change that came into force: what was predicted of it, and what then happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tierscope.advice.predictions import Predicted


@dataclass(frozen=True, slots=True)
class Observed:
    """What the endpoint did in a span: shares of prompt tokens, and TTFT in seconds."""

    requests: int
    hit_ratio: float
    """Share of prompt tokens that came from any cache."""
    l0: float
    l1: float | None
    """Null where records do not tell L1 from L2."""
    l2: float | None
    ttft_p50_seconds: float | None
    ttft_p90_seconds: float | None
    ttft_mean_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A change that came into force: predicted and observed side by side."""

    advised_at: datetime | None
    """When it was advised; null where it was not, and is foretold from the requests before it."""
    changes: tuple[str, ...]
    """Ids of the changes that came into force together."""
    in_force_since: datetime
    in_force_until: datetime | None
    """When the next configuration took its place; null while it is in force."""
    predicted: Predicted
    observed: Observed | None
    kept: bool | None
    """Whether the observed share of tokens from any cache is at least the predicted interval's lower end."""
    absent_because: str | None
    """Why nothing is observed yet; null where it is."""
