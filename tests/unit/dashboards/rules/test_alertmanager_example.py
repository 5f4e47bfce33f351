"""The Alertmanager example speaks of alerts and labels that there are."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import yaml

from dashboards.lint.expressions import ExpressionCheck
from dashboards.rules.recording import LONGER_WINDOWS
from dashboards.rules.render import alerts, recordings
from tests.alertmanager_server import EXAMPLE

ALERTS = {alert.name: alert for alert in alerts()}
RULES = yaml.safe_load(EXAMPLE.read_text("utf-8"))["inhibit_rules"]
OUTSIDE = {"cluster"}
"""Labels that Prometheus attaches, not our series."""


def matched(matchers: list[str]) -> list[str]:
    """Alerts that matchers on `alertname` find."""
    names = []
    for matcher in matchers:
        if not matcher.startswith("alertname"):
            continue
        _, operator, pattern = matcher.partition("=~") if "=~" in matcher else matcher.partition("=")
        pattern = pattern.strip().strip('"')
        names += [
            name for name in ALERTS if (re.fullmatch(pattern, name) if operator == "=~" else name == pattern)
        ]
    return names


def labels_of(name: str) -> set[str]:
    """Labels that an alert's series can have."""
    check = ExpressionCheck(recordings(), timedelta(minutes=5), [timedelta(hours=1)] * len(LONGER_WINDOWS))
    return set(check.check(ALERTS[name].expr)[1]) | set(ALERTS[name].labels)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["source_matchers"][0])
def test_an_inhibition_names_alerts_that_share_its_labels(rule):
    """One that names nothing silences nothing, and labels that one side lacks silence too much."""
    sources, targets = matched(rule["source_matchers"]), matched(rule["target_matchers"])
    wanted = set(rule["equal"]) - OUTSIDE

    assert sources
    assert targets
    assert not set(sources) & set(targets)
    for name in (*sources, *targets):
        assert wanted <= labels_of(name), name
