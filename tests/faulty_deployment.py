"""A testbed in real time with exporter, collector, Prometheus and Alertmanager, and a fault to plant.

History passes quickly until there is enough of it to say what is usual; from then on a second is a second,
and rules, detector and exporter have the settings that are shipped. What a test changes: Prometheus scrapes
and evaluates every `SCRAPE_SECONDS`, Alertmanager sends to the test's receiver without waiting for more.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from tests.alertmanager_server import AlertmanagerServer, quick_example
from tests.exporting import Scrape
from tests.ports import free_port
from tests.prometheus_server import PrometheusServer, shipped_configuration, wait_until
from tests.staged import Staged, feed_of, started
from tests.webhook import Webhook
from tierscope.domain.settings import CollectorSettings, Settings
from tierscope.domain.window import TimeSpan
from tierscope.registry import regression_metrics
from tierscope.storage.serving import RemoteReader
from tierscope.testbed.config import Incident, TestbedConfig
from tierscope.testbed.testbed import Testbed

SCRAPE_SECONDS = 5
HISTORY_SECONDS = 4800.0
"""Virtual seconds before the present: caches fill, then 4,000 requests say what is usual."""
WARM_SECONDS = 2100.0
CATCH_UP_SECONDS = 900.0
PRESENT_SECONDS = 3.0
"""The model moves in steps of a second."""
DETECTOR = regression_metrics.DETECTOR_STATE


class FaultyDeployment(Staged):
    """Everything from the testbed to the receiver; entered, the detector watches and nobody is paged."""

    def __init__(self, config: TestbedConfig, folder: Path, *, prometheus: str, manager: str) -> None:
        self._folder = folder
        self._binaries = prometheus, manager
        self.testbed = Testbed(
            replace(config, duration_seconds=None, history_seconds=HISTORY_SECONDS, speed=60.0)
        )

    def plant(self, incident: Incident) -> float:
        """Let it befall the deployment; when, in unix seconds."""
        self.testbed.befall(incident)
        return time.time()

    def pages(self) -> list[dict[str, Any]]:
        """Every alert that came firing to the pager, as it came first."""
        found: dict[str, dict[str, Any]] = {}
        for path, message in list(self.webhook.delivered):
            for alert in message["alerts"]:
                if path == "pager" and alert["status"] == "firing":
                    found.setdefault(alert["fingerprint"], alert)
        return list(found.values())

    def regressions(self, since_unix_seconds: float) -> list[dict[str, Any]]:
        """What the API finds since a moment, held against all of the warm history before it."""
        deployment = self.testbed.deployment()
        path = f"/v1/regressions/{deployment.namespace}/{deployment.endpoint}"
        asked = {"since": since_unix_seconds, "learn_seconds": HISTORY_SECONDS - WARM_SECONDS}
        answer = httpx.get(self._api + path, params=asked, timeout=60).raise_for_status().json()
        found: list[dict[str, Any]] = answer["regressions"]
        return found

    def _start(self, opened: ExitStack) -> None:
        self.webhook = opened.enter_context(Webhook())
        opened.enter_context(self.testbed)
        told = Settings(exporter=replace(self.testbed.settings(), name="e"))
        exporter = started(opened, "export", told, self._folder)
        settings = CollectorSettings(
            store_path=str(self._folder / "store.duckdb"),
            feeds=(feed_of("e", exporter.addresses),),
            deployments=(self.testbed.deployment(),),
            advise_seconds=3600.0,  # advice is not looked at here
        )
        self._store_history(settings)
        # A detector reads on from where it stood: one that is to learn from the history starts after it.
        settings = replace(
            settings, regress_history_seconds=HISTORY_SECONDS - WARM_SECONDS, listen_port=free_port()
        )
        server = started(opened, "serve", Settings(collector=settings), self._folder)
        self._api = server.addresses["api"]
        collector_url = f"http://127.0.0.1:{settings.listen_port}/metrics"
        wait_until(
            lambda: Scrape(collector_url).sums(DETECTOR, "state").get("watching"),
            seconds=CATCH_UP_SECONDS,
            what="the detector to have learnt",
        )
        self._watch(opened, exporter.addresses["metrics_url"], collector_url)

    def _store_history(self, settings: CollectorSettings) -> None:
        """Until the present is reached and the store has all that was sent by then."""
        with ExitStack() as quick:
            collector = started(quick, "collect", Settings(collector=settings), self._folder)
            wait_until(
                lambda: time.time() - self.testbed.progress().virtual_unix_seconds < PRESENT_SECONDS,
                seconds=CATCH_UP_SECONDS,
                what="the present",
            )
            sent = self.testbed.sent().prompt
            remote = RemoteReader(Path(collector.addresses["socket"]))
            quick.callback(remote.close)
            name = settings.deployments[0].namespace, settings.deployments[0].endpoint
            wait_until(
                lambda: remote.totals(*name, TimeSpan(0.0, time.time())).tokens.prompt >= sent,
                seconds=CATCH_UP_SECONDS,
                what="the store to have everything",
            )

    def _watch(self, opened: ExitStack, *pages: str) -> None:
        prometheus, manager = self._binaries
        (self._folder / "alerts").mkdir()
        alertmanager = AlertmanagerServer(manager, quick_example(self.webhook.url), self._folder / "alerts")
        opened.callback(alertmanager.close)
        configuration = shipped_configuration(
            *pages, scrape_seconds=SCRAPE_SECONDS, alertmanager=alertmanager.address
        )
        (self._folder / "rules").mkdir()
        self.prometheus = PrometheusServer(prometheus, configuration, self._folder / "rules")
        opened.callback(self.prometheus.close)
