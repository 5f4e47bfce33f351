"""What boards and rules cost a Prometheus that holds five hundred replicas: printed, not asserted."""

from __future__ import annotations

import itertools
import os
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from dashboards.boards import BOARDS
from dashboards.lint.boards import Panel, read_board, without_variables
from tests import populated_page
from tests.long_sample import SAMPLED
from tests.page_server import PageServer
from tests.prometheus_server import PrometheusServer, shipped_configuration, wait_until
from tierscope.domain.tiers import Tier
from tierscope.telemetry.prometheus import SampleCollector

pytestmark = [pytest.mark.long, pytest.mark.system]

REPLICAS = 50 if SAMPLED else 500
SCRAPE_SECONDS = 10 if REPLICAS == 50 else 30
SCRAPES = 6
MORE_SCRAPES = 4
"""Those that may come while queries run; after them counters stand still."""
STEPS = 60
"""As a panel 1 h wide asks for at a point a minute."""
NAMED = 5
OF_ENGINES = "tierscope-engines"
"""Shows series of the engines' own pages, which are not scraped here."""
ALL_AT_ONCE = "Regressions that go on"
MOST_LINES = 50
"""On one query of one panel; the page has a regression of every cause, tier and reason at once."""


@pytest.fixture
def page(monkeypatch):
    """Every metric, for so many replicas of one endpoint; each has a node with a cache server."""
    engines = {("ns", "chat", "m", f"chat-{number}", "0") for number in range(REPLICAS)}
    holders = {
        Tier.L0: tuple(f"ns/chat/chat-{number}/0" for number in range(REPLICAS)),
        Tier.L1: tuple(f"node-{number}" for number in range(REPLICAS)),
        Tier.L2: ("pool",),
    }
    sources = tuple(
        f"{kind}:{engine}"
        for kind in ("vllm_metrics", "vllm_hook", "vllm_events")
        for engine in holders[Tier.L0]
    )
    monkeypatch.setattr(populated_page, "ENGINES", engines)
    monkeypatch.setattr(populated_page, "HOLDERS", holders)
    monkeypatch.setitem(populated_page.LABEL_VALUES, "source", sources)
    server = PageServer()
    server.pages = _Pages()  # type: ignore[assignment]  # answers `get` alone, as asked
    yield f"{server.url}/metrics"
    server.close()


class _Pages:
    """The page as of each scrape, made before the first one: a late page would be a scrape that failed."""

    def __init__(self) -> None:
        self._made = [_page(SCRAPE_SECONDS * number) for number in range(SCRAPES + MORE_SCRAPES)]
        self._asked = itertools.count()

    def get(self, _: str) -> bytes:
        return self._made[min(next(self._asked), len(self._made) - 1)]


def _page(elapsed_seconds: float) -> bytes:
    registry = CollectorRegistry()
    registry.register(SampleCollector(lambda: populated_page.populated_samples(elapsed_seconds)))
    return generate_latest(registry)


@pytest.fixture
def prometheus(page, system_binary, tmp_path):
    """Has scraped the page some times and evaluated every rule as often."""
    configuration = shipped_configuration(page, scrape_seconds=SCRAPE_SECONDS)
    server = PrometheusServer(system_binary("prometheus", package="prometheus"), configuration, tmp_path)
    wait_until(
        lambda: any(float(one["value"][1]) >= SCRAPES for one in server.query("sum_over_time(up[1h])")),
        seconds=60 * SCRAPES,
        what=f"{SCRAPES} scrapes",
    )
    yield server
    server.close()


def test_every_panel_of_every_board_answers(prometheus):
    """Each with the series a reader can read; what rules and queries take is printed."""
    series = prometheus.get("status/tsdb")["headStats"]["numSeries"]
    print(f"\n{REPLICAS} replicas: {series} series; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for group in prometheus.get("rules")["groups"]:
        print(f"rules {group['name']}: {group['evaluationTime']:.2f} s an evaluation")
    for uid, render in BOARDS.items():
        board = read_board(render())
        closed = {panel.id for row in board.panels for panel in row.panels}
        taken = [
            (*_ask(prometheus, uid, panel, target.expr), f"{panel.title}{' (closed)' * (panel.id in closed)}")
            for panel in board.every_panel
            for target in panel.targets
        ]
        assert any(found for _, found, _ in taken) or uid == OF_ENGINES, f"{uid} shows nothing"
        together = sum(seconds for seconds, *_ in taken)
        print(f"{uid}: {len(taken)} queries, {together:.1f} s one after another")
        for seconds, found, name in sorted(taken, reverse=True)[:NAMED]:
            print(f"    {seconds:.2f} s, {found} series: {name}")


def _ask(prometheus: PrometheusServer, uid: str, panel: Panel, expr: str) -> tuple[float, int]:
    """Seconds that a query over an hour's worth of points took, and how many series it found."""
    started = time.perf_counter()
    span = SCRAPE_SECONDS * (SCRAPES - 1)
    found = prometheus.query_over(without_variables(expr), seconds=span, steps=STEPS)
    assert panel.title == ALL_AT_ONCE or len(found) <= MOST_LINES, (
        f"{uid}, {panel.title}: {len(found)} series"
    )
    return time.perf_counter() - started, len(found)
