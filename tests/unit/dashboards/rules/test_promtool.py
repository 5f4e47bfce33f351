"""The generated rules under promtool: valid, right at both edges, and wrong once anything is changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

CASES = Path(__file__).parents[3] / "fixtures" / "rules"
RULES = "dashboards/generated/tierscope-rules.yaml"

each_case = pytest.mark.parametrize("case", sorted(path.name for path in CASES.glob("*.yaml")))


@pytest.fixture
def promtool(system_binary, tmp_path):
    """Return a function that runs promtool in an empty folder and gives back status and output."""
    binary = system_binary("promtool", package="prometheus")

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [binary, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def run_case(promtool, tmp_path, repository):
    """Return a function that runs one file of cases against the generated rules, changed or not."""

    def run(case: str, change=lambda text: text) -> tuple[int, str]:
        (tmp_path / case).write_text((CASES / case).read_text())
        (tmp_path / "tierscope-rules.yaml").write_text(change((repository / RULES).read_text()))
        return promtool("test", "rules", case)

    return run


def test_the_rule_file_is_valid(promtool, repository):
    """`promtool check rules` has nothing to say, its lint included."""
    status, output = promtool("check", "rules", "--lint=all", "--lint-fatal", str(repository / RULES))

    assert status == 0, output


def test_the_example_configuration_is_valid(promtool, repository):
    """It loads, and finds the generated rules from where it stands."""
    status, output = promtool("check", "config", str(repository / "deploy/prometheus/prometheus.yml"))

    assert status == 0, output
    assert "rules found" in output


@each_case
def test_the_rules_do_what_the_cases_say(run_case, case):
    """At both edges, without data, and over restarts."""
    status, output = run_case(case)

    assert status == 0, output


def changed(old: str, new: str):
    """A change of the rule file that must find what it changes."""

    def change(text: str) -> str:
        assert old in text, f"the generated rules no longer hold {old!r}: change this test with them"
        return text.replace(old, new)

    return change


@pytest.mark.parametrize(
    ("case", "old", "new"),
    [
        ("TierscopeSourceDown.yaml", "for: 5m", "for: 4m"),
        ("TierscopeSourceDown.yaml", "for: 5m", "for: 6m"),
        ("TierscopeSourceDown.yaml", "== 0", "== 1"),
        ("TierscopeSourceDown.yaml", "== 0", "<= 1"),
        ("TierscopeSourceDown.yaml", "== 0", "> 1"),
        ("TierscopeSourceDown.yaml", "severity: warning", "severity: info"),
        ("TierscopeSourceDown.yaml", "$labels.source", "$labels.job"),
        ("TierscopeSourceDown.yaml", "runbooks/TierscopeSourceDown.md", "runbooks/Other.md"),
        ("recording.yaml", "[5m]", "[1m]"),
        ("recording.yaml", "[5m]", "[10m]"),
        ("recording.yaml", "sum by", "avg by"),
        ("recording.yaml", "(namespace, endpoint, model, tier)", "(namespace, endpoint, tier)"),
        ("recording.yaml", "(namespace, endpoint, model)", "(namespace, endpoint, model, replica)"),
        ("recording.yaml", "rate(", "increase("),
    ],
)
def test_a_changed_rule_fails_its_cases(run_case, case, old, new):
    """The cases hold the thresholds, the waiting time, the labels and the words in place."""
    status, output = run_case(case, changed(old, new))

    assert status != 0, output
