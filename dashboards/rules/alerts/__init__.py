"""Alerts by subject; a new one is a row in one of these files, a runbook, and promtool cases at its edges."""

from __future__ import annotations

from dashboards.rules.alerts.latency import latency_alerts
from dashboards.rules.alerts.pipeline import PIPELINE_ALERTS
from dashboards.rules.alerts.tiers import TIER_ALERTS
from dashboards.rules.objective import TtftObjective
from dashboards.rules.types import RuleGroup


def alert_groups(objective: TtftObjective) -> tuple[RuleGroup, ...]:
    """Every alert, in the order someone who is woken asks: who is hurt, which tier, can we see."""
    return (
        RuleGroup("tierscope-latency", latency_alerts(objective)),
        RuleGroup("tierscope-tiers", TIER_ALERTS),
        RuleGroup("tierscope-pipeline", PIPELINE_ALERTS),
    )
