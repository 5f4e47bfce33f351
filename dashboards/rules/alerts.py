"""Alerts; a new one is a row here, a runbook, and a promtool case at both of its edges."""

from __future__ import annotations

from dashboards.promql import gauge
from dashboards.rules.types import Alert, RuleGroup, Severity
from tierscope.registry.metrics import SOURCE_UP

SOURCE_DOWN = Alert(
    name="TierscopeSourceDown",
    expr=f"{gauge(SOURCE_UP)} == 0",
    for_seconds=300,
    severity=Severity.WARNING,
    means="A source has not been read for a while; what only it knows is absent.",
    summary="{{ $labels.source }} cannot be read.",
    description=(
        "The exporter {{ $labels.instance }} has not been able to read {{ $labels.source }} for 5 minutes. "
        "What only this source knows is absent from every number; it is not zero."
    ),
)

ALERTS = RuleGroup("tierscope-alerts", (SOURCE_DOWN,))
