"""Rules with one thing changed, each of which its cases have to notice."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parent / "fixtures" / "rules"
RULES = Path(__file__).parent.parent / "dashboards/generated/tierscope-rules.yaml"
RECORDED = "recording.yaml"

NUMBER = re.compile(r"(?<![\w.\[{\"])(\d+(?:\.\d+)?)(?![\w.\]\"])")
GUARD = re.compile(r"> 0\)$")
"""Ends a divisor that must not be 0, not a threshold."""
ORDER = "group_eval_order: [recorded, alert]\n"
"""Without it promtool evaluates groups in any order, and an alert may read what was recorded a minute ago."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one alert: its name for the report, and the rule as changed."""

    alert: str
    what: str
    rule: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.alert}: {self.what}"


def alert_rules(text: str) -> dict[str, dict[str, Any]]:
    """Alerts of a rule file by name."""
    return {
        rule["alert"]: rule
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }


ALERTS = alert_rules(RULES.read_text("utf-8"))
"""Every alert as generated."""


def mutants(rule: dict[str, Any]) -> Iterator[Mutant]:
    """Thresholds a quarter up and a fifth down, the wait a minute longer and shorter, severity, words."""
    for start, number, changed in _thresholds(rule["expr"]):
        expr = rule["expr"][:start] + changed + rule["expr"][start + len(number) :]
        yield Mutant(rule["alert"], f"{number} at {start} is {changed}", rule | {"expr": expr})
    minutes = int(rule["for"].removesuffix("m"))
    for other in (minutes - 1, minutes + 1):
        yield Mutant(rule["alert"], f"for {other}m", rule | {"for": f"{other}m"})
    words = {name: text.replace("a", "o") for name, text in rule["annotations"].items()}
    yield Mutant(rule["alert"], "severity", rule | {"labels": rule["labels"] | {"severity": "none"}})
    yield Mutant(rule["alert"], "words", rule | {"annotations": words})


def _thresholds(expr: str) -> Iterator[tuple[int, str, str]]:
    for found in NUMBER.finditer(expr):
        number, end = found.group(), found.end()
        if float(number) == 0:
            stands_for_nothing = GUARD.search(expr[: end + 1]) or expr[end : end + 2] == " *"
            if not stands_for_nothing:
                yield found.start(), number, "1"
            continue
        for factor in (1.25, 0.8):
            yield found.start(), number, f"{float(number) * factor:g}"


def rules_for(text: str, alert: dict[str, Any] | None) -> str:
    """The rule file with this alert alone and the recorded series it reads, or with all that is recorded."""
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"] if "record" in rule]
    if alert is not None:
        rules = [*(rule for rule in rules if rule["record"] in alert["expr"]), alert]
    # One group: promtool evaluates several in any order, and an alert may then read what was before.
    return yaml.safe_dump({"groups": [{"name": "rules", "rules": rules}]}, sort_keys=False, width=10_000)


class RuleCases:
    """The files of cases, run by promtool in a folder against the generated rules, changed or not."""

    def __init__(self, promtool: str, folder: Path) -> None:
        self._promtool = promtool
        self._folder = folder

    def run(
        self,
        case: str,
        *,
        rule: dict[str, Any] | None = None,
        change: Callable[[str], str] = lambda text: text,
    ) -> tuple[int, str]:
        """Exit status and output. An alert's cases see that alert and what it reads; `recording.yaml` all."""
        alert = None if case == RECORDED else rule or ALERTS[case.removesuffix(".yaml")]
        text = rules_for(RULES.read_text("utf-8"), alert)
        (self._folder / case).write_text(ORDER + (CASES / case).read_text("utf-8"), "utf-8")
        (self._folder / "tierscope-rules.yaml").write_text(change(text))
        return self.promtool("test", "rules", case)

    def promtool(self, *arguments: str) -> tuple[int, str]:
        """Run promtool in the folder."""
        done = subprocess.run(
            [self._promtool, *arguments],
            cwd=self._folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr
