"""An exporter dies in the middle of the traffic: what is told twice is stored once, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx

from tests.staged import feed_to_be, started
from tierscope.cli import demo_run
from tierscope.cli.demo_sums import scraped_tokens
from tierscope.cli.processes import Child
from tierscope.domain.identity import SourceKind
from tierscope.domain.settings import CollectorSettings, Settings
from tierscope.domain.window import TimeSpan
from tierscope.storage.serving import RemoteReader
from tierscope.testbed.testbed import Testbed

PATIENCE_SECONDS = 120.0
ALL_TIME = TimeSpan(0.0, 1e11)
NAME = "node"


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_an_exporter_killed_in_the_middle_loses_and_doubles_nothing(
    opened, tmp_path: Path, monkeypatch, repository
):
    """It is started again on the same addresses and reads again what the engines' hooks still hold.

    Records sent, the store, and the two exporters' pages together agree to the token: Prometheus adds up the
    same over a counter reset. Coverage tells of the restart.
    """
    monkeypatch.setenv("PYTHONPATH", str(repository))
    testbed = Testbed(demo_run.testbed_config(demo_run.DemoOptions(None, 15.0, 1, 2, None)))
    testbed.start()
    opened.callback(testbed.stop)
    feed = feed_to_be(NAME)
    exporter_settings = replace(
        testbed.settings(),
        name=NAME,
        poll_seconds=1.0,
        feed_endpoint=feed.endpoint,
        feed_replay_endpoint=feed.replay_endpoint,
        page_state_file=str(tmp_path / "page.json"),
    )
    collector_settings = CollectorSettings(store_path=str(tmp_path / "store.duckdb"), feeds=(feed,))
    collector = started(opened, "collect", Settings(collector=collector_settings), tmp_path)
    exporter = started(opened, "export", Settings(exporter=exporter_settings), tmp_path)
    reader = RemoteReader(collector.addresses["socket"])
    opened.callback(reader.close)
    deployment = testbed.deployment()

    def stored():
        return reader.totals(deployment.namespace, deployment.endpoint, ALL_TIME).tokens

    def shown_by(one: Child):
        return scraped_tokens(httpx.get(one.addresses["metrics_url"]).text)

    assert until(lambda: shown_by(exporter).prompt > 0 and stored().prompt > 0)  # in the middle
    before = shown_by(exporter)
    os.kill(exporter.pid, signal.SIGKILL)
    exporter.stop()
    again = started(opened, "export", Settings(exporter=exporter_settings), tmp_path)

    assert testbed.wait(PATIENCE_SECONDS)
    assert until(lambda: stored() == testbed.sent()), (stored(), testbed.sent())
    assert before.prompt > 0
    assert before + shown_by(again) == testbed.sent()
    feeds = [part for part in reader.coverage(ALL_TIME) if part.source.kind is SourceKind.FEED]
    assert sum(part.restarts for part in feeds) == 1
    assert sum(part.missing for part in feeds) == 0
