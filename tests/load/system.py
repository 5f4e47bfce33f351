"""Exporters, collector, store, API, Prometheus with the shipped rules, and engines played from recordings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.exporting import Scrape
from tests.load.measuring import Table, disk_bytes
from tests.ports import free_port
from tests.prometheus_server import PrometheusServer, shipped_configuration
from tests.staged import Staged, feed_of, started
from tierscope.domain.deployment import Deployment, RoutingPolicy, TierConfig
from tierscope.domain.identity import SourceKind
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.settings import (
    CollectorSettings,
    EngineSettings,
    ExporterSettings,
    Settings,
)
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.window import TimeSpan
from tierscope.registry import metrics
from tierscope.storage.serving import RemoteReader

ALL_TIME = TimeSpan(0.0, 1e11)
NAMESPACE = "load"
BUFFER_BYTES = 64 * 2**20
WINDOW_SECONDS = 300.0
"""What a process may hold is full within minutes, so that a soak can show that it stays there."""


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    engines: int
    nodes: int
    endpoints: int
    cycles: int
    cycle_seconds: int


class Engines:
    """The process that plays the engines."""

    def __init__(self, size: Size, repository: Path) -> None:
        arguments = (size.engines, size.endpoints, size.cycles, size.cycle_seconds)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.load.engines", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=repository,
            env=os.environ | {"PYTHONPATH": str(repository)},
        )
        assert self._process.stdout is not None
        described = json.loads(self._process.stdout.readline())
        self.settings = tuple(EngineSettings(**one) for one in described["engines"])
        self.truth: list[dict[str, Any]] = described["truth"]
        self.model: str = described["model"]
        self.said: dict[str, Any] = {
            "cpu_seconds": 0.0,
            "elapsed_seconds": 0.0,
            "cycles": 0,
            "late_seconds": 0.0,
        }
        self.pid = self._process.pid
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said = json.loads(line)

    def order(self, words: str) -> None:
        """See `tests.load.engines`."""
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()

    def sent(self, endpoint: str) -> TokenSplit:
        """What all whole cycles so far add up to, for an endpoint's engines."""
        total = NO_TOKENS
        for number, engine in enumerate(self.settings):
            if engine.endpoint == endpoint:
                prompt, l0, l1, l2, computed = self.truth[number % len(self.truth)]["tokens"]
                total += TokenSplit(prompt, l0=l0, l1=l1, l2=l2, computed=computed)
        cycles = self.said["cycles"]
        parts = (total.prompt, total.l0, total.l1, total.l2, total.computed)
        prompt, l0, l1, l2, computed = (cycles * part for part in parts)
        return TokenSplit(prompt, l0=l0, l1=l1, l2=l2, computed=computed)

    def rows(self) -> int:
        """Requests of all whole cycles so far, over all engines."""
        each = [self.truth[number % len(self.truth)]["requests"] for number in range(len(self.settings))]
        return int(self.said["cycles"]) * sum(each)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class System(Staged):
    """Everything between the engines and who asks; entered, it runs, and the engines wait for `go`."""

    def __init__(self, size: Size, folder: Path, repository: Path, prometheus: str) -> None:
        self._size, self._folder, self._repository, self._binary = size, folder, repository, prometheus
        self._asked: list[float] = []
        self.answers: Counter[str] = Counter()
        self._asking = threading.Event()

    def __exit__(self, *_: object) -> None:
        self._asking.set()
        super().__exit__()

    def _start(self, opened: ExitStack) -> None:
        size = self._size
        self.engines = Engines(size, self._repository)
        opened.callback(self.engines.close)
        per_node = -(-size.engines // size.nodes)
        self.exporters = []
        feeds = []
        for node in range(size.nodes):
            engines = self.engines.settings[node * per_node : (node + 1) * per_node]
            exporter = ExporterSettings(name=f"node-{node}", engines=engines, feed_buffer_bytes=BUFFER_BYTES)
            name = f"node-{node}"
            child = started(opened, "export", Settings(exporter=exporter), self._folder, name=name)
            self.exporters.append(child)
            feeds.append(feed_of(name, child.addresses))
        self.store = self._folder / "store"
        self.store.mkdir()
        self.endpoints = sorted({one.endpoint for one in self.engines.settings})
        collector = CollectorSettings(
            store_path=str(self.store / "store.duckdb"),
            feeds=tuple(feeds),
            listen_port=free_port(),
            deployments=tuple(self._deployment(name) for name in self.endpoints),
            advise_window_seconds=WINDOW_SECONDS,
        )
        self.serve = started(opened, "serve", Settings(collector=collector), self._folder)
        self.collector_url = f"http://127.0.0.1:{collector.listen_port}/metrics"
        self.collector_pid = int(self.serve.addresses["collector_pid"])
        self.reader = RemoteReader(self.store / "store.duckdb.sock")
        opened.callback(self.reader.close)
        pages = [one.addresses["metrics_url"] for one in self.exporters] + [self.collector_url]
        self.prometheus = PrometheusServer(self._binary, shipped_configuration(*pages), self._folder)
        opened.callback(self.prometheus.close)
        threading.Thread(target=self._ask, daemon=True).start()
        self.table = Table(
            {
                "engines": [self.engines.pid],
                "exporters": [one.pid for one in self.exporters],
                "collector": [self.collector_pid],
                "API": [self.serve.pid],
                "Prometheus": [self.prometheus.pid],
            }
        )

    def _deployment(self, endpoint: str) -> Deployment:
        return Deployment(
            namespace=NAMESPACE,
            endpoint=endpoint,
            model=self.engines.model,
            replicas=self._size.engines // self._size.endpoints,
            routing=RoutingPolicy.ROUNDROBIN,
            tiers=(
                TierConfig(Tier.L0, 24 * GIB, 24 * GIB),
                TierConfig(Tier.L1, 32 * GIB, 96 * GIB),
                TierConfig(Tier.L2, 384 * GIB, 2048 * GIB),
            ),
            bytes_per_token=57_344.0,
        )

    def _ask(self) -> None:
        """One who polls an endpoint's recommendation once a second."""
        url = f"{self.serve.addresses['api']}/v1/recommendations/{NAMESPACE}/{self.endpoints[0]}"
        with httpx.Client(timeout=60) as client:
            while not self._asking.wait(1.0):
                began = time.perf_counter()
                try:
                    self.answers[str(client.get(url).status_code)] += 1
                    self._asked.append(time.perf_counter() - began)
                except httpx.HTTPError as error:
                    self.answers[type(error).__name__] += 1

    def look(self, phase: str) -> str:
        """Add a row to the table; the row as text."""
        asked, self._asked = self._asked, []
        page = Scrape(self.collector_url)
        newest = [span.end_unix_seconds for name in self.endpoints if (span := self._history(name))]
        row = self.table.look(
            phase,
            **{
                "store MB": disk_bytes(self.store) / 1e6,
                "newest request, seconds old": time.time() - max(newest, default=time.time()),
                "oldest uncommitted, seconds": page.sums(metrics.COMMIT_WAIT_SECONDS).get((), 0.0),
                "least complete": self.completeness(),
                "engines behind, seconds": self.engines.said["late_seconds"],
                "slowest answer, ms": 1000 * float(np.max(asked)) if asked else 0.0,
            },
        )
        return self.table.line(row)

    def _history(self, endpoint: str) -> TimeSpan | None:
        return self.reader.history(NAMESPACE, endpoint)

    def completeness(self) -> float:
        """The least complete stream or feed on any page; polls of a page that hung are not among them."""
        pages = [one.addresses["metrics_url"] for one in self.exporters] + [self.collector_url]
        found = [
            value
            for url in pages
            for source, value in Scrape(url).sums(metrics.COMPLETENESS, "source").items()
            if not source.startswith(SourceKind.VLLM_METRICS.value)
        ]
        return min(found, default=0.0)

    def stored(self, endpoint: str) -> TokenSplit:
        """What the store has of an endpoint."""
        return self.reader.totals(NAMESPACE, endpoint, ALL_TIME).tokens

    def scraped(self) -> TokenSplit:
        """What the exporters' pages show, over all engines."""
        parts = (Scrape(one.addresses["metrics_url"]).split(metrics.REQUEST_TOKENS) for one in self.exporters)
        return sum(parts, NO_TOKENS)

    def rules_seconds(self) -> float:
        """What one evaluation of every rule takes."""
        return sum(float(group["evaluationTime"]) for group in self.prometheus.get("rules")["groups"])
