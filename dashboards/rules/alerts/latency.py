"""Alerts about TTFT: a regression with its cause, and an objective whose budget burns, by how fast."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.promql import gauge
from dashboards.rules.objective import TtftObjective
from dashboards.rules.recording import FIRST_TOKEN_RATE, averaged, slow_rate
from dashboards.rules.types import Alert, Severity
from tierscope.registry.regression_metrics import TTFT_REGRESSION

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


WHO = (
    '{{ if eq $labels.cause "tier_share" }}{{ $labels.tier | toUpper }} serves less than it usually would'
    '{{ else if eq $labels.cause "tier_speed" }}loads from {{ $labels.tier | toUpper }} take longer'
    '{{ else if eq $labels.cause "queue" }}requests queue longer'
    "{{ else }}engines take longer for the same tokens{{ end }}"
)
"""The guilty part, from the labels of the regression."""

WHY_AND_WHAT: dict[str, tuple[str, str]] = {
    "evictions": ("it no longer holds what it held", "give the tier more room, or undo what took it"),
    "pool_full": ("the pool is full", "make room in the pool: a time to live, a clean-up, more workers"),
    "routing": ("prompts reach other engines than before", "go back to the router's former settings"),
    "seed": (
        "replicas do not find each other's chunks",
        "give all replicas one PYTHONHASHSEED and restart them",
    ),
    "worker_lost": ("the pool has shrunk", "bring its lost worker back"),
    "slow": ("it is slow", "look at its disks, its network and its neighbours"),
}
"""By reason: in words, and what to do first."""


def _why_and_what() -> str:
    parts = "".join(
        f'{{{{ {"if" if not number else "else if"} eq $labels.reason "{reason}" }}}} ({why}); {what}'
        for number, (reason, (why, what)) in enumerate(WHY_AND_WHAT.items())
    )
    otherwise = (
        '{{ else if eq $labels.cause "queue" }}; add replicas, or balance their load'
        "{{ else }}; compare engine release, arguments and clocks with those before{{ end }}"
    )
    return parts + otherwise


TTFT_REGRESSION_FOUND = Alert(
    name="TierscopeTtftRegression",
    expr=f"{gauge(TTFT_REGRESSION)} > 1",
    for_seconds=60,
    severity=Severity.CRITICAL,
    means="First tokens take longer than their prompts explain; its labels say who did it, and since when.",
    summary=(
        "TTFT of {{ $labels.namespace }}/{{ $labels.endpoint }}, {{ $labels.model }}"
        "{{ if $labels.workload }} on {{ $labels.workload }}{{ end }}, is "
        '{{ $value | printf "%.2f" }} times '
        f"what its prompts explain, since {{{{ $labels.since }}}}: {WHO}{_why_and_what()}."
    ),
    description=(
        "It is not the prompts of {{ $labels.model }} that changed: requests are held against what their "
        "tokens, and what was asked for before, took until {{ $labels.since }}. "
        "`tierscope regress` has the rise by its parts, in seconds a request."
    ),
    board="tierscope-ttft",
    chosen=("namespace", "endpoint"),
)


def latency_alerts(objective: TtftObjective) -> tuple[Alert, ...]:
    """The regression, and burn-rate alerts on the share of requests that miss the objective."""
    return (TTFT_REGRESSION_FOUND, *(_alert(burn, objective) for burn in BURNS))


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
        board="tierscope-ttft",
        chosen=("namespace", "endpoint"),
    )
