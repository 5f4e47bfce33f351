"""Alerts about TTFT: an objective whose budget burns, told by how fast."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.rules.objective import TtftObjective
from dashboards.rules.recording import FIRST_TOKEN_RATE, averaged, slow_rate
from dashboards.rules.types import Alert, Severity

LEAST_SLOW_REQUESTS = 10
"""Fewer slow requests in the short window are bad luck: one at night is not a burning budget."""


@dataclass(frozen=True, slots=True)
class Burn:
    """A speed at which the budget burns: over a long window, and still over a short one."""

    name: str
    factor: float
    long_window: str
    short_window: str
    short_seconds: int
    for_seconds: int
    severity: Severity
    gone_in: str
    """When a budget of 30 days is gone at this speed."""


BURNS = (
    Burn("TierscopeTtftBudgetBurnsFast", 14.4, "1h", "5m", 300, 120, Severity.CRITICAL, "two days"),
    Burn("TierscopeTtftBudgetBurns", 6, "6h", "30m", 1800, 900, Severity.WARNING, "five days"),
    Burn("TierscopeTtftBudgetBurnsSlowly", 1, "3d", "6h", 21600, 3600, Severity.INFO, "30 days"),
)


def latency_alerts(objective: TtftObjective) -> tuple[Alert, ...]:
    """Multi-window, multi-burn-rate alerts on the share of requests that miss the objective."""
    return tuple(_alert(burn, objective) for burn in BURNS)


def _alert(burn: Burn, objective: TtftObjective) -> Alert:
    slow = slow_rate(objective)
    late = round(burn.factor * objective.budget, 9)

    def ratio(window: str) -> str:
        return f"{averaged(slow, window)} / ({averaged(FIRST_TOKEN_RATE, window)} > 0)"

    enough = f"{burn.short_seconds} * {averaged(slow, burn.short_window)} >= {LEAST_SLOW_REQUESTS}"
    return Alert(
        name=burn.name,
        expr=f"{ratio(burn.long_window)} > {late:g} and {ratio(burn.short_window)} > {late:g} and {enough}",
        for_seconds=burn.for_seconds,
        severity=burn.severity,
        means=(
            f"More than {late:.3g} of the requests miss the TTFT objective, over {burn.long_window} and "
            "still over "
            f"{burn.short_window}: its budget of 30 days is gone in {burn.gone_in}."
        ),
        summary=(
            "{{ $value | humanizePercentage }} of the requests of {{ $labels.namespace }}/{{ "
            "$labels.endpoint }} wait "
            f"longer than {objective.seconds:g} s for their first token."
        ),
        description=(
            f"Over the last {burn.long_window}, and still over the last {burn.short_window}, for {{{{ "
            "$labels.model }}. "
            f"The objective allows {objective.budget:.4g} of them; at this speed the budget of 30 days is "
            "gone in "
            f"{burn.gone_in}."
        ),
    )
