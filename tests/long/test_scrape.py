"""What a scrape costs on a node of eight engines, of which two sources hang: printed, not asserted."""

from __future__ import annotations

import os
import time
import urllib.request

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from exporters.process import Exporter
from tests.exporting import Scrape, await_true
from tests.long_sample import SAMPLED
from tests.node import ENGINES, running_node
from tierscope.registry import metrics
from tierscope.telemetry.prometheus import SampleCollector

pytestmark = pytest.mark.long

SCRAPES = 50 if SAMPLED else 500


def seconds_of(url: str) -> float:
    started = time.perf_counter()
    with urllib.request.urlopen(url, timeout=30) as answer:
        answer.read()
    return time.perf_counter() - started


def told(what: str, taken: list[float], size_bytes: int) -> None:
    half, nearly_all, slowest = np.quantile(taken, (0.5, 0.99, 1.0)) * 1000
    print(f"\n{what}: {len(taken)} scrapes of {size_bytes / 1000:.0f} kB, median {half:.1f} ms, ", end="")
    print(f"99 % {nearly_all:.1f} ms, most {slowest:.1f} ms, load {os.getloadavg()[0]:.1f}")


def processor_seconds(exporter: Exporter, pages: int = 100) -> float:
    """What making one page costs a core, whoever else has it meanwhile."""
    registry = CollectorRegistry()
    registry.register(SampleCollector(exporter.samples))
    started = time.thread_time()
    for _ in range(pages):
        generate_latest(registry)
    return (time.thread_time() - started) / pages


def test_a_scrape_while_two_sources_hang(captures, capsys):
    """Polling goes on as configured by default; the two that hang are named."""
    with running_node(captures) as node, Exporter(node.settings(poll_seconds=1.0)) as exporter:
        url = exporter.addresses.metrics_url

        def up():
            return Scrape(url).sums(metrics.SOURCE_UP, "source")

        await_true(lambda: sum(up().values()) == ENGINES + 3, "everything was read")
        size_bytes = len(Scrape(url).text)
        alive = [seconds_of(url) for _ in range(SCRAPES)]
        node.engines[3].hung.add("/metrics")
        node.fuse.hung.add("/metrics")
        hanging = {node.engine_source(3), node.fuse_source}
        await_true(lambda: {s for s, is_up in up().items() if not is_up} == hanging, "both were told")
        hung = [seconds_of(url) for _ in range(SCRAPES)]

        with capsys.disabled():
            told("all answer", alive, size_bytes)
            told("two hang", hung, size_bytes)
            print(f"\nmaking a page: {processor_seconds(exporter) * 1000:.1f} ms of a core")
        assert {source for source, is_up in up().items() if not is_up} == hanging
