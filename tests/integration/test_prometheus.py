"""A real Prometheus scrapes a page with every metric on it: every board and rule finds what it asks for."""

from __future__ import annotations

import json
import subprocess
import time
from urllib.parse import urlencode

import httpx
import pytest

from dashboards.boards import BOARDS
from dashboards.lint.boards import Board, read_board, without_variables
from dashboards.rules.alerts.pipeline import SOURCE_DOWN
from dashboards.rules.render import alerts, recordings
from tests.engine_pages import ODD_ENDINGS, EnginePages
from tests.populated_page import DOWN, TRACE, populated_samples
from tests.prometheus_server import PrometheusServer, shipped_configuration, wait_until
from tests.vllm_pages import RELEASES
from tierscope.registry.engine_metrics import VLLM_PREFIX
from tierscope.registry.metrics import METRICS, REQUEST_TOKENS
from tierscope.registry.types import Kind
from tierscope.telemetry.prometheus import MetricsServer

pytestmark = pytest.mark.system

DATA_SECONDS = 180.0
"""Longest wait for the second scrape and evaluation, on a machine that does much else."""


@pytest.fixture(scope="module")
def page():
    """Serve the populated page; its counters grow."""
    started = time.monotonic()
    server = MetricsServer("127.0.0.1", 0, lambda: populated_samples(time.monotonic() - started))
    yield server.url
    server.close()


@pytest.fixture(scope="module")
def engines(repository):
    """Serve pages of ten vLLM releases, of odd relays, and of LMCache; their counters grow."""
    pages = EnginePages(repository / "tests/fixtures/captures")
    yield pages
    pages.close()


@pytest.fixture(scope="module")
def prometheus(page, engines, system_binary, tmp_path_factory):
    """Scrape the page each second, with the example's settings and a target label that ours must outlive."""
    configuration = shipped_configuration(page, scrape_seconds=1, labels={"namespace": "monitoring"})
    configuration["scrape_configs"] += engines.scrapes()
    server = PrometheusServer(
        system_binary("prometheus", package="prometheus"),
        configuration,
        tmp_path_factory.mktemp("prometheus"),
    )
    yield server
    server.close()


def test_promtool_has_nothing_to_say_about_the_page(page, system_binary):
    """Names, units and help texts pass Prometheus' own lint."""
    text = httpx.get(page).text

    promtool = system_binary("promtool", package="prometheus")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_of_the_table_arrives_with_its_labels(prometheus, metric):
    """What the page says is what Prometheus stores: no label renamed, none lost."""
    series = f"{metric.name}_bucket" if metric.kind is Kind.HISTOGRAM else metric.name
    found = wait_until(lambda: prometheus.query(series), seconds=DATA_SECONDS, what=series)

    labels = {name for one in found for name in one["metric"]} - {"__name__", "instance", "job", "le"}
    target_own = set() if "namespace" in metric.labels else {"namespace"}
    assert labels - target_own == set(metric.labels)


def test_the_engines_namespace_outlives_the_targets(prometheus):
    """`honor_labels` keeps our label where discovery attaches one of the same name."""
    found = wait_until(
        lambda: prometheus.query(f"count by (namespace) ({REQUEST_TOKENS.name})"),
        seconds=DATA_SECONDS,
        what="request tokens",
    )

    assert [one["metric"] for one in found] == [{"namespace": "ns"}]


def board_expressions() -> list[object]:
    """Title and expression of every query and annotation of every board, variables replaced."""
    boards = [read_board(render()) for render in BOARDS.values()]
    marks = {one.expr: one.name for board in boards for one in board.annotations.every}
    return [
        *(pytest.param(name, without_variables(expr), id=name) for expr, name in marks.items()),
        *_panel_expressions(boards),
    ]


def _panel_expressions(boards: list[Board]) -> list[object]:
    return [
        pytest.param(panel.title, without_variables(target.expr), id=f"{panel.title} {number}")
        for board in boards
        for panel in board.every_panel
        for number, target in enumerate(panel.targets, start=1)
    ]


@pytest.mark.parametrize(("title", "expression"), board_expressions())
def test_every_panel_has_data(prometheus, title, expression):
    """Each query of each panel is accepted and finds at least one number."""
    found = wait_until(lambda: prometheus.query(expression), seconds=DATA_SECONDS, what=title)

    assert "NaN" not in {one["value"][1] for one in found}


LATER = {
    "prompt_tokens_by_source": "by_source",
    "prompt_tokens_cached_by_source": "cached_by_source",
    "external_prefix_cache": "external",
    "request_prefill_kv_computed_tokens": "computed_length",
}
"""Families that not every release has, and what says so of a release."""


@pytest.mark.parametrize("name", [*RELEASES, *ODD_ENDINGS])
def test_the_engines_board_has_data_of_every_release(prometheus, name):
    """UD-16, UD-17: a renamed family, or an odd ending, empties no panel; what a release lacks is absent."""
    release = RELEASES.get(name) or RELEASES["0.33"]
    panels = read_board(BOARDS["tierscope-engines"]()).every_panel
    asked = [target.expr for panel in panels for target in panel.targets if VLLM_PREFIX in target.expr]
    later = {expr: has for expr in asked for family, has in LATER.items() if f"{VLLM_PREFIX}{family}" in expr}
    due = [expr for expr in asked if expr not in later or getattr(release, later[expr])]

    for expr in due:
        ours = without_variables(expr.replace("$instance", name))
        wait_until(lambda asked=ours: prometheus.query(asked), seconds=DATA_SECONDS, what=expr)
    for expr in set(asked) - set(due):
        assert prometheus.query(without_variables(expr.replace("$instance", name))) == [], expr


def test_a_panel_that_shows_traces_finds_one(prometheus):
    """UD-56: from the TTFT of a replica to the trace of one of its requests, by the trace's id."""
    panels = [
        panel
        for one in json.loads(BOARDS["tierscope-ttft"]())["panels"]
        for panel in (one, *one.get("panels", []))
    ]
    asked = [target for panel in panels for target in panel.get("targets", []) if target.get("exemplar")]
    assert len(asked) == 1

    def found():
        now = time.time()
        query = {"query": without_variables(asked[0]["expr"]), "start": now - 300, "end": now}
        return prometheus.get(f"query_exemplars?{urlencode(query)}")

    traces = wait_until(found, seconds=DATA_SECONDS, what="an exemplar")
    assert {one["labels"]["trace_id"] for series in traces for one in series["exemplars"]} == {TRACE}


@pytest.mark.parametrize("rule", recordings(), ids=lambda rule: rule.record)
def test_every_recording_has_data(prometheus, rule):
    """The rule is evaluated without error and its series keep the labels they say."""
    found = wait_until(lambda: prometheus.query(rule.record), seconds=DATA_SECONDS, what=rule.record)

    assert {name for one in found for name in one["metric"]} == {"__name__", *rule.labels}


def test_every_alert_is_evaluated_and_the_source_that_is_down_is_waited_for(prometheus):
    """All rules are healthy; the one bad source is pending, the good ones are not."""

    def pending():
        rules = {rule["name"]: rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]}
        return rules if rules[SOURCE_DOWN.name]["alerts"] else None

    rules = wait_until(pending, seconds=DATA_SECONDS, what=f"{SOURCE_DOWN.name} to be pending")

    assert {alert.name for alert in alerts()} <= set(rules)
    assert {rule["health"] for rule in rules.values()} == {"ok"}, json.dumps(rules, indent=1)
    assert [one["labels"]["source"] for one in rules[SOURCE_DOWN.name]["alerts"]] == [DOWN]
