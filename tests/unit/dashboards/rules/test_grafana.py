"""Grafana-managed groups say what the alert table says."""

from __future__ import annotations

import yaml

from dashboards.rules.grafana import grafana_rules
from dashboards.rules.render import alerts

RULES = [rule for group in yaml.safe_load(grafana_rules())["groups"] for rule in group["rules"]]


def test_every_alert_is_there_once_and_recorded_series_are_not():
    """Prometheus goes on recording; no alert is lost or doubled."""
    assert [rule["title"] for rule in RULES] == [alert.name for alert in alerts()]
    assert len({rule["uid"] for rule in RULES}) == len(RULES)


def test_a_rule_fires_wherever_the_alert_would_have_a_series():
    """A value of 0 is a series too (a source that is down), and no data is no alarm."""
    for rule, alert in zip(RULES, alerts(), strict=True):
        asked, there = rule["data"]
        assert asked["model"]["expr"] == alert.expr
        assert asked["model"]["instant"]
        assert (rule["condition"], there["refId"], there["model"]["expression"]) == (
            "B",
            "B",
            "is_number($A)",
        )
        assert rule["noDataState"] == "OK"
        assert rule["labels"]["severity"] == alert.severity.value


def test_words_name_the_value_as_grafana_does():
    """`$value` is Prometheus' own."""
    for rule in RULES:
        assert not [text for text in rule["annotations"].values() if "$value " in text]
    assert any("$values.A.Value" in rule["annotations"]["summary"] for rule in RULES)


def test_the_data_source_may_be_another():
    """Each Grafana has its own uid for Prometheus."""
    text = grafana_rules(datasource_uid="amp-1")

    assert "datasourceUid: amp-1" in text
    assert "datasourceUid: prometheus" not in text


def test_a_grafana_rule_knows_its_board():
    """Grafana shows the link by itself."""
    assert [rule["annotations"]["__dashboardUid__"] for rule in RULES] == [alert.board for alert in alerts()]
