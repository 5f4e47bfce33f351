"""Rule files say what the rule tables say."""

from __future__ import annotations

import pytest
import yaml

from dashboards.rules.render import GROUPS, Links, alerts, duration, prometheus_rule, recordings, rule_file


def test_every_rule_is_in_the_file_once():
    """Recordings come before the alerts that may read them."""
    groups = yaml.safe_load(rule_file())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]

    assert [rule["record"] for rule in rules if "record" in rule] == [rule.record for rule in recordings()]
    assert [rule["alert"] for rule in rules if "alert" in rule] == [alert.name for alert in alerts()]
    assert [group["name"] for group in groups] == [group.name for group in GROUPS]


def test_the_runbook_link_is_made_from_the_alerts_name():
    """Nobody writes a link, so none is forgotten; where the runbooks lie may be named."""
    text = rule_file(links=Links(runbooks_url="https://wiki.example/kv/"))
    links = [
        rule["annotations"]["runbook_url"]
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]

    assert links == [f"https://wiki.example/kv/{alert.name}.md" for alert in alerts()]


def test_the_operators_object_has_the_same_groups():
    """One table, two shapes."""
    document = yaml.safe_load(prometheus_rule())

    assert document["kind"] == "PrometheusRule"
    assert document["spec"]["groups"] == yaml.safe_load(rule_file())["groups"]


@pytest.mark.parametrize(("seconds", "text"), [(300, "5m"), (90, "90s"), (3600, "60m"), (0, "0s")])
def test_durations_are_as_prometheus_writes_them(seconds, text):
    """Minutes where they are whole."""
    assert duration(seconds) == text


def test_an_alert_leads_to_its_board_with_what_it_is_about():
    """The last hours, and the endpoint that its labels name; the address of Grafana may be named."""
    text = rule_file(links=Links(grafana_url="https://grafana.example/"))
    found = {
        rule["alert"]: rule["annotations"]["dashboard_url"]
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }

    for alert in alerts():
        start = f"https://grafana.example/d/{alert.board}?from=now-6h&to=now"
        choices = "".join(f"&var-{label}={{{{ $labels.{label} }}}}" for label in alert.chosen)
        assert found[alert.name] == start + choices
    assert any(alert.chosen for alert in alerts())
