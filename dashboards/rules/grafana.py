"""The alerts as Grafana-managed groups, in the form of Grafana's provisioning files.

Recorded series stay where they are recorded, in Prometheus: Grafana only asks for them. A Prometheus alert
fires for every series its expression has, whatever the value; Grafana fires where a condition is not 0. So
each rule asks (A), and its condition (B) is 1 wherever there is a number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml
from grafana_foundation_sdk.builders import alerting, expr, prometheus
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.alerting import RelativeTimeRange
from grafana_foundation_sdk.models.common import DataSourceRef

from dashboards.rules.render import GROUPS, HEADER, HERE, Links, alert_words, duration
from dashboards.rules.types import Alert, RuleGroup

FOLDER = "Tierscope"
DATASOURCE_UID = "prometheus"
"""Uid of the Prometheus data source that Grafana asks, unless another is named."""
EXPRESSIONS = DataSourceRef(type_val="__expr__", uid="__expr__")
ASKED_SECONDS = 600
"""How far back Grafana's own time range goes; the expressions bring their own."""
NOT_OURS = ("folderUID", "orgID", "ruleGroup")
"""Keys of the HTTP API that a file says once, for the group."""


def grafana_rules(
    groups: Sequence[RuleGroup] = GROUPS,
    *,
    links: Links = HERE,
    datasource_uid: str = DATASOURCE_UID,
) -> str:
    """A provisioning file with every alert."""
    documents = [
        {
            "orgId": 1,
            "name": group.name,
            "folder": FOLDER,
            "interval": "1m",
            "rules": [_rule(alert, links, datasource_uid) for alert in found],
        }
        for group in groups
        if (found := [rule for rule in group.rules if isinstance(rule, Alert)])
    ]
    text = yaml.safe_dump(
        {"apiVersion": 1, "groups": documents}, sort_keys=False, width=1000, allow_unicode=True
    )
    return HEADER + text


def _rule(alert: Alert, links: Links, datasource_uid: str) -> dict[str, Any]:
    asked = (
        alerting.Query("A")
        .datasource_uid(datasource_uid)
        .relative_time_range(RelativeTimeRange(from_val=ASKED_SECONDS, to=0))
        .model(prometheus.Dataquery().expr(alert.expr).instant().ref_id("A"))
    )
    there = (
        alerting.Query("B")
        .datasource_uid(EXPRESSIONS.uid or "")
        .relative_time_range(RelativeTimeRange(from_val=ASKED_SECONDS, to=0))
        .model(expr.TypeMath().expression("is_number($A)").datasource(EXPRESSIONS).ref_id("B"))
    )
    words = {key: _grafana_words(text) for key, text in alert_words(alert, links).items()}
    words["__dashboardUid__"] = alert.board
    rule = (
        alerting.Rule(alert.name)
        .uid(alert.name)
        .condition("B")
        .with_query(asked)
        .with_query(there)
        .no_data_state("OK")
        .exec_err_state("Error")
        .for_val(duration(alert.for_seconds))
        .labels({"severity": alert.severity.value, **alert.labels})
        .annotations(words)
    )
    document: dict[str, Any] = json.loads(JSONEncoder().encode(rule.build()))
    return {key: value for key, value in document.items() if key not in NOT_OURS}


def _grafana_words(text: str) -> str:
    """Prometheus' `$value` is Grafana's value of query A; labels have the same name in both."""
    return text.replace("$value", "$values.A.Value")
