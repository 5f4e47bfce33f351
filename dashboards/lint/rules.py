"""Checks of the rule tables: what promtool cannot know, because only we know the metric table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import promql_parser

from dashboards.boards import BOARDS
from dashboards.lint.boards import titles
from dashboards.lint.expressions import ExpressionCheck
from dashboards.promql import CLUSTER
from dashboards.rules.recording import LONGER_WINDOWS, WINDOW
from dashboards.rules.render import alerts, recordings
from dashboards.rules.types import Alert, Recording, RuleGroup
from tierscope.registry.metrics import METRICS

RUNBOOKS = Path(__file__).parent.parent / "runbooks"
HEADINGS = ("What it means", "Who is hurt", "How to look", "How to fix")
ALERT_NAME = re.compile(r"Tierscope([A-Z][a-z0-9]+)+")
NAMED_ON_A_BOARD = re.compile(r"(?<!\*)\*([^*\n]+)\*(?!\*)")
"""In a runbook, what stands in italics is the title of a board or of something on one."""
NAMED_METRIC = re.compile(r"\btierscope_\w+")
TEMPLATE_LABEL = re.compile(r"\$labels\.(\w+)")


def rule_problems(groups: Sequence[RuleGroup], runbooks: Path = RUNBOOKS) -> Iterator[str]:
    """Every problem of the recording rules, the alerts and their runbooks."""
    longer = [promql_parser.parse_duration(window) for window in LONGER_WINDOWS]
    check = ExpressionCheck(recordings(groups), promql_parser.parse_duration(WINDOW), longer)
    for rule in recordings(groups):
        yield from (f"{rule.record}: {problem}" for problem in _recording_problems(rule, check))
    for alert in alerts(groups):
        yield from (f"{alert.name}: {problem}" for problem in _alert_problems(alert, check))
        yield from (f"{alert.name}: {problem}" for problem in runbook_problems(alert.name, runbooks))


def runbook_problems(name: str, runbooks: Path) -> Iterator[str]:
    """A runbook exists, bears its alert's name, has the four headings, and names only what is there."""
    path = runbooks / f"{name}.md"
    if not path.is_file():
        yield f"it has no runbook {path.name}"
        return
    text = path.read_text(encoding="utf-8")
    if not text.startswith(f"# {name}\n"):
        yield f"its runbook does not begin with '# {name}'"
    found = tuple(re.findall(r"^## (.+)$", text, flags=re.MULTILINE))
    if found != HEADINGS:
        yield f"its runbook has the headings {', '.join(found)}, not {', '.join(HEADINGS)}"
    for title in sorted(set(NAMED_ON_A_BOARD.findall(text)) - titles()):
        yield f"its runbook names {title}, which is on no board"
    for metric in sorted(set(NAMED_METRIC.findall(text)) - {metric.name for metric in METRICS}):
        yield f"its runbook names {metric}, which nothing publishes"


def _recording_problems(rule: Recording, check: ExpressionCheck) -> Iterator[str]:
    problems, labels = check.check(rule.expr)
    yield from problems
    if not problems and labels != {CLUSTER, *rule.labels}:
        kept = ", ".join((CLUSTER, *rule.labels))
        yield f"it says it keeps {kept} and keeps {', '.join(sorted(labels))}"
    if not rule.means.endswith("."):
        yield f"this is not a sentence: {rule.means}"
    if not rule.record.startswith(f"{'_'.join(rule.labels)}:"):
        yield "its name does not begin with the labels it keeps"


def _alert_problems(alert: Alert, check: ExpressionCheck) -> Iterator[str]:
    if not ALERT_NAME.fullmatch(alert.name):
        yield "its name is not of the form TierscopeSomethingWrong"
    if alert.for_seconds <= 0:
        yield "it fires at the first bad sample"
    problems, labels = check.check(alert.expr)
    yield from problems
    if alert.board not in BOARDS:
        yield f"it leads to the board {alert.board}, which there is not"
    for label in sorted(set(alert.chosen) - labels):
        yield f"it would choose by {label}, which its series do not have"
    for text in (alert.means, alert.summary, alert.description):
        if not text.endswith((".", "{{ end }}")):
            yield f"this is not a sentence: {text}"
        for label in sorted(set(TEMPLATE_LABEL.findall(text)) - labels):
            yield f"its words name {label}, which its series do not have"
