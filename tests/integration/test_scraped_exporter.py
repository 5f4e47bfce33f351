"""A real Prometheus scrapes a real exporter that reads a whole deployment."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
import yaml

from exporters.process import Exporter
from tests.exporting import await_true
from tests.prometheus_server import PrometheusServer, wait_until
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Origin
from tierscope.registry.metrics import REQUEST_TOKENS
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

pytestmark = pytest.mark.system

DATA_SECONDS = 60.0


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
def prometheus(opened, exporter, repository, system_binary, tmp_path_factory):
    """Scrapes the exporter each second with the shipped scrape settings."""
    configuration = yaml.safe_load((repository / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(repository / "dashboards/generated/tierscope-rules.yaml")]
    target = exporter.addresses.metrics_url.removeprefix("http://").removesuffix("/metrics")
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
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
