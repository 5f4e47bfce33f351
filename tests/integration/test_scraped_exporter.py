"""A real Prometheus scrapes a real exporter that reads a whole deployment."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest

from dashboards.boards import BOARDS
from dashboards.lint.boards import read_board, without_variables
from exporters.process import Exporter
from tests.exporting import await_true
from tests.prometheus_server import PrometheusServer, shipped_configuration, wait_until
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Origin
from tierscope.registry.advice_metrics import GHOST_HIT_RATIO
from tierscope.registry.metrics import REQUEST_TOKENS
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

pytestmark = pytest.mark.system

DATA_SECONDS = 180.0


@pytest.fixture(scope="module")
def opened():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def testbed(opened):
    """Some minutes of traffic over two replicas, told in a few seconds."""
    return opened.enter_context(Testbed(TestbedConfig(replicas=2, duration_seconds=600, speed=60, seed=3)))


@pytest.fixture(scope="module")
def exporter(opened, testbed, tmp_path_factory):
    state = tmp_path_factory.mktemp("exporter") / "page.json"
    settings = replace(testbed.settings(), name="test", poll_seconds=0.5, page_state_file=str(state))
    return opened.enter_context(Exporter(settings))


@pytest.fixture(scope="module")
def prometheus(opened, exporter, system_binary, tmp_path_factory):
    """Scrapes the exporter each second with the shipped scrape settings."""
    configuration = shipped_configuration(exporter.addresses.metrics_url, scrape_seconds=1)
    binary = system_binary("prometheus", package="prometheus")
    server = PrometheusServer(binary, configuration, tmp_path_factory.mktemp("prometheus"))
    opened.callback(server.close)
    return server


def tokens_in(prometheus: PrometheusServer) -> TokenSplit:
    by_origin = dict.fromkeys((origin.value for origin in Origin), 0)
    for series in prometheus.query(f"sum by (tier) ({REQUEST_TOKENS.name})"):
        by_origin[series["metric"]["tier"]] = int(float(series["value"][1]))
    return TokenSplit(sum(by_origin.values()), **by_origin)


def test_prometheus_holds_the_tokens_that_were_sent(testbed, prometheus):
    """By tier and to the token, once the traffic is over."""
    await_true(lambda: testbed.finished, "the testbed's traffic has ended")

    wait_until(lambda: tokens_in(prometheus) == testbed.sent(), seconds=DATA_SECONDS, what="all tokens")

    assert testbed.sent().prompt > 100_000


def test_promtool_finds_nothing_to_say_about_the_live_page(exporter, system_binary):
    """What a real exporter shows passes Prometheus' own lint."""
    page = httpx.get(exporter.addresses.metrics_url).text
    promtool = system_binary("promtool", package="prometheus")

    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


NOT_HERE = {
    "tierscope-overview": {
        "Computing prompts costs", "Computing prompts costs, by cause",
        "The endpoint costs, today and as advised", "Computed tokens by cause",
        "Seconds that computing took, by cause", "Tokens of the 10 busiest tenants",
        "Cached share of the 10 tenants that are served least",
        "L2 evictions by reason", "Lost or unreadable",
    },
    "tierscope-tier-l0": set(),
    "tierscope-tier-l1": {
        "Age at eviction", "Load and store tasks, p90", "Bytes in and out",
        "Not stored or not loaded, by reason",
    },
    "tierscope-tier-l2": {
        "Evictions by reason", "Content replaced within", "Age at eviction", "Full in", "Eviction marks",
        "One read or write, p50 and p99", "Failed requests", "Not stored or not loaded, by reason",
        "Bytes by kind", "Bytes by model", "Chunks that came and went", "Age of the last scan",
    },
    "tierscope-routing": {
        "Admissions without a first token", "Computed although another replica had it",
        "Hits in L0 and L1: possible, predicted, delivered",
        "Prompt tokens that L0 and L1 did not serve, by why",
    },
}  # fmt: skip
"""Panels that this deployment has nothing for: no probe in its cache servers, no FUSE client, no scan of a
pool that evicts nothing, no tenants, no collector, which tells causes and what routing could have found; and
nothing fails."""


@pytest.mark.parametrize("uid", NOT_HERE)
def test_boards_show_what_a_deployment_tells(testbed, prometheus, uid):
    """No panel is empty of a figure that the exporter has; what nobody tells has no number, not a 0."""
    await_true(lambda: testbed.finished, "the testbed's traffic has ended")

    for panel in read_board(BOARDS[uid]()).every_panel:
        asked = [without_variables(target.expr) for target in panel.targets]
        if panel.title in NOT_HERE[uid] or not asked:
            continue
        wait_until(
            lambda asked=asked: any(prometheus.query(one) for one in asked),
            seconds=DATA_SECONDS,
            what=f"{uid}: {panel.title}",
        )
    for panel in read_board(BOARDS["tierscope-capacity"]()).every_panel:
        for target in panel.targets:
            if GHOST_HIT_RATIO.name in target.expr:
                assert prometheus.query(without_variables(target.expr)) == [], panel.title
