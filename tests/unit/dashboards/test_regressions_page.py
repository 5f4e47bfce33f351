"""What the page on regressions promises of series and of the annotation is so."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from dashboards.boards import BOARDS
from dashboards.lint.boards import without_variables
from dashboards.lint.expressions import ExpressionCheck
from dashboards.rules.render import recordings
from tests import populated_page
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import FINDING, UNKNOWN_INPUT
from tierscope.telemetry.prometheus import SampleCollector

ONLY_WHEN_WRONG = tuple(f"{metric.name}{{" for metric in (FINDING, UNKNOWN_INPUT))
SOURCES = ("vllm_metrics", "vllm_events", "vllm_hook", "lmcache_metrics", "lmcache_records")


@pytest.fixture(scope="module")
def text(repository) -> str:
    return (repository / "docs/regressions.md").read_text("utf-8")


def series_of(replicas: int, monkeypatch) -> int:
    """On a page with every value of every label; what is there only while something is wrong is left out."""
    names = [f"pod-{number}" for number in range(replicas)]
    holders = {
        Tier.L0: tuple(f"ns/chat/{name}/0" for name in names),
        Tier.L1: tuple(names),
        Tier.L2: ("pool",),
    }
    sources = tuple(f"{kind}:{name}" for kind in SOURCES for name in names)
    monkeypatch.setattr(populated_page, "ENGINES", {("ns", "chat", "m", name, "0") for name in names})
    monkeypatch.setattr(populated_page, "HOLDERS", holders)
    monkeypatch.setitem(populated_page.LABEL_VALUES, "source", sources)
    registry = CollectorRegistry()
    registry.register(SampleCollector(lambda: populated_page.populated_samples(1.0)))
    lines = generate_latest(registry).decode().splitlines()
    return sum(not line.startswith(("#", *ONLY_WHEN_WRONG)) for line in lines)


def test_a_replica_adds_no_more_series_than_is_written(text, monkeypatch):
    """Counted with two replicas and with three."""
    written = int(re.search(r"at most \*\*(\d+) series\*\*", text)[1])

    assert series_of(3, monkeypatch) - series_of(2, monkeypatch) == written


def test_the_annotation_asks_for_what_there_is(text):
    """Its expression passes the lint of the boards, and every label it shows is one of the answer's."""
    annotation = json.loads(re.search(r"```json\n(.*?)```", text, re.DOTALL)[1])
    on_boards = json.loads(BOARDS["tierscope-ttft"]())["annotations"]["list"]
    assert on_boards == [annotation]
    check = ExpressionCheck(recordings(), timedelta(minutes=5))
    problems, labels = check.check(without_variables(annotation["expr"]))

    shown = set(re.findall(r"\{\{(\w+)\}\}", annotation["titleFormat"] + annotation["textFormat"]))
    assert problems == []
    assert shown | set(annotation["tagKeys"].split(",")) <= labels
