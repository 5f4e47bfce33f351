"""The generated rules under promtool: valid, right at both edges, and wrong once anything is changed."""

from __future__ import annotations

import pytest

from tests.rule_mutants import ALERTS, CASES, RECORDED, RULES, RuleCases, mutants

pytestmark = pytest.mark.system

each_case = pytest.mark.parametrize("case", sorted(path.name for path in CASES.glob("*.yaml")))


@pytest.fixture
def cases(system_binary, tmp_path) -> RuleCases:
    """Every file of cases, run in an empty folder."""
    return RuleCases(system_binary("promtool", package="prometheus"), tmp_path)


def test_the_rule_file_is_valid(cases):
    """`promtool check rules` has nothing to say, its lint included."""
    status, output = cases.promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))

    assert status == 0, output


def test_the_example_configuration_is_valid(cases, repository):
    """It loads, and finds the generated rules from where it stands."""
    status, output = cases.promtool("check", "config", str(repository / "deploy/prometheus/prometheus.yml"))

    assert status == 0, output
    assert "rules found" in output


def test_every_alert_has_its_cases():
    """A file of cases an alert, and one for what is recorded."""
    assert {path.name for path in CASES.glob("*.yaml")} == {RECORDED, *(f"{name}.yaml" for name in ALERTS)}


@each_case
def test_the_rules_do_what_the_cases_say(cases, case):
    """At both edges, without data, and over restarts."""
    status, output = cases.run(case)

    assert status == 0, output


def changed(old: str, new: str):
    """A change of the rule file that must find what it changes."""

    def change(text: str) -> str:
        assert old in text, f"the generated rules no longer hold {old!r}: change this test with them"
        return text.replace(old, new)

    return change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[5m]", "[1m]"),
        ("[5m]", "[10m]"),
        ("sum by", "avg by"),
        ("(cluster, namespace, endpoint, model, tier)", "(cluster, namespace, endpoint, tier)"),
        ("(cluster, namespace, endpoint, model)", "(cluster, namespace, endpoint, model, replica)"),
        ("rate(", "increase("),
        ("2(", "5("),
        (" - sum by", " + sum by"),
        ("max by", "min by"),
        ("offset 30m", "offset 5m"),
        ("endpoint) (50,", "endpoint) (1,"),
        ("topk by (cluster, namespace, endpoint) (50", "topk (2"),
        ("(cluster, namespace, endpoint, tenant, tier)", "(cluster, namespace, endpoint, tenant)"),
    ],
)
def test_a_changed_recording_fails_its_cases(cases, old, new):
    """The cases hold windows, labels and sums in place."""
    status, output = cases.run(RECORDED, change=changed(old, new))

    assert status != 0, output


@pytest.mark.parametrize("alert", ALERTS)
def test_a_changed_alert_fails_its_cases(cases, alert):
    """A quarter more at its first threshold is noticed; `tests/long` changes each of its parts."""
    first = next(mutants(ALERTS[alert]))

    status, output = cases.run(f"{alert}.yaml", rule=first.rule)

    assert status != 0, output
