"""Why prompt tokens were computed, what that took and what it cost: recorded over five minutes."""

from __future__ import annotations

from dashboards.promql import gauge, one_of, sum_by
from dashboards.rules.recording import MISS_COST_RATE, MISS_SECONDS_RATE, MISS_TOKEN_RATE, recorded
from dashboards.variables import OWNER, OWNER_LABELS
from tierscope.registry.advice_metrics import ADVISED_COST

SECONDS_AN_HOUR = 3600


def computed_by_cause() -> str:
    """Computed prompt tokens a second, by why they were computed."""
    return sum_by(recorded(MISS_TOKEN_RATE, OWNER), "cause")


def seconds_by_cause() -> str:
    """Seconds of TTFT that computing takes each second, by cause."""
    return sum_by(recorded(MISS_SECONDS_RATE, OWNER), "cause")


def cost_by_cause() -> str:
    """What computing costs an hour, by cause; currencies are never added up."""
    return f"{SECONDS_AN_HOUR} * {sum_by(recorded(MISS_COST_RATE, OWNER), 'cause', 'currency')}"


def cost() -> str:
    """What computing costs an hour, for all causes together."""
    return f"{SECONDS_AN_HOUR} * {sum_by(recorded(MISS_COST_RATE, OWNER), 'currency')}"


def advised_cost() -> str:
    """What each endpoint costs an hour today, and at the advised sizes."""
    return one_of("max", gauge(ADVISED_COST, OWNER), *OWNER_LABELS, "point", "currency")
