"""The lint finds what is planted in a rule or a runbook, and nothing in ours."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from dashboards.lint.rules import HEADINGS, RUNBOOKS, rule_problems, runbook_problems
from dashboards.rules.alerts.pipeline import SOURCE_DOWN
from dashboards.rules.recording import TOKEN_RATE
from dashboards.rules.render import GROUPS, alerts
from dashboards.rules.types import RuleGroup
from tierscope.registry.metrics import REQUEST_TOKENS, SOURCE_UP


def planted(rule) -> str:
    """Problems of a group with this one rule."""
    return "; ".join(rule_problems([RuleGroup("planted", (rule,))]))


def test_our_rules_are_in_order():
    """Every rule passes every check, and every runbook is there."""
    assert list(rule_problems(GROUPS)) == []


def test_every_runbook_belongs_to_an_alert():
    """An alert that goes takes its runbook with it."""
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {alert.name for alert in alerts()}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (replace(SOURCE_DOWN, name="TierscopeNoRunbook"), "it has no runbook TierscopeNoRunbook.md"),
        (replace(SOURCE_DOWN, name="source_down"), "not of the form"),
        (replace(SOURCE_DOWN, for_seconds=0), "fires at the first bad sample"),
        (replace(SOURCE_DOWN, expr=f"{SOURCE_UP.name}_x == 0"), "nothing publishes"),
        (replace(SOURCE_DOWN, expr=f"{SOURCE_UP.name}_total == 0"), "did you mean"),
        (replace(SOURCE_DOWN, board="tierscope-x"), "the board tierscope-x, which there is not"),
        (replace(SOURCE_DOWN, chosen=("pod",)), "choose by pod, which its series do not have"),
        (replace(SOURCE_DOWN, summary="{{ $labels.pod }} is down."), "its words name pod"),
        (replace(SOURCE_DOWN, description="It is down"), "not a sentence"),
        (
            replace(TOKEN_RATE, expr=f"sum(rate({REQUEST_TOKENS.name}[5m]))"),
            "says it keeps cluster, namespace",
        ),
        (replace(TOKEN_RATE, expr=f"sum({REQUEST_TOKENS.name})"), "counter read without a rate"),
        (replace(TOKEN_RATE, means="tokens"), "not a sentence: tokens"),
        (replace(TOKEN_RATE, record="tokens:rate5m"), "does not begin with the labels it keeps"),
    ],
)
def test_a_planted_fault_is_found(rule, words):
    """UD-17: what promtool lets pass because it does not know our table."""
    assert words in planted(rule)


def test_a_missing_runbook_fails(tmp_path):
    """An alert without a runbook wakes someone who has nothing to read."""
    shutil.copytree(RUNBOOKS, tmp_path, dirs_exist_ok=True)
    assert list(rule_problems(GROUPS, tmp_path)) == []

    (tmp_path / f"{SOURCE_DOWN.name}.md").unlink()

    assert list(rule_problems(GROUPS, tmp_path)) == [
        f"{SOURCE_DOWN.name}: it has no runbook {SOURCE_DOWN.name}.md"
    ]


def test_a_runbook_has_its_title_and_the_four_headings(tmp_path):
    """Whoever is woken finds the same four answers in the same order."""
    (tmp_path / "TierscopeX.md").write_text("# Something\n\n## How to fix\n")

    found = list(runbook_problems("TierscopeX", tmp_path))

    assert found == [
        "its runbook does not begin with '# TierscopeX'",
        f"its runbook has the headings How to fix, not {', '.join(HEADINGS)}",
    ]


def test_a_runbook_names_only_what_is_there(tmp_path):
    """Nobody is sent at night to a board, a panel or a metric that does not exist."""
    (tmp_path / "TierscopeX.md").write_text(
        "# TierscopeX\n"
        + "".join(f"\n## {heading}\n" for heading in HEADINGS)
        + f"Board *Tierscope / Overview*, *L1 fill*, *Nowhere*; `{SOURCE_UP.name}`, `{SOURCE_UP.name}_x`.\n"
    )

    assert list(runbook_problems("TierscopeX", tmp_path)) == [
        "its runbook names Nowhere, which is on no board",
        f"its runbook names {SOURCE_UP.name}_x, which nothing publishes",
    ]
