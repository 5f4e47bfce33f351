"""An exporter dies in the middle of the traffic: what is told twice is stored once, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from tests.staged import feed_to_be, started
from tierscope.cli import demo_run
from tierscope.cli.demo_sums import scraped_tokens
from tierscope.cli.processes import Child
from tierscope.domain.identity import SourceKind
from tierscope.domain.requests import TokenSplit
from tierscope.domain.settings import CollectorSettings, ExporterSettings, Settings
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


@dataclass(frozen=True)
class Running:
    """A testbed, an exporter of it with a page that is kept, and a collector."""

    testbed: Testbed
    exporter_settings: ExporterSettings
    exporter: Child
    reader: RemoteReader

    def stored(self) -> TokenSplit:
        """What of the requests is in the store."""
        deployment = self.testbed.deployment()
        return self.reader.totals(deployment.namespace, deployment.endpoint, ALL_TIME).tokens

    def restarts(self, kind: SourceKind) -> dict[str, int]:
        """Restarts that coverage tells, by whose they are."""
        covered = [part for part in self.reader.coverage(ALL_TIME) if part.source.kind is kind]
        return {part.source.owner: part.restarts for part in covered}


@pytest.fixture
def running(opened, tmp_path: Path, monkeypatch, repository, request) -> Running:
    """In the middle of the traffic, of so many seconds."""
    monkeypatch.setenv("PYTHONPATH", str(repository))
    testbed = Testbed(demo_run.testbed_config(demo_run.DemoOptions(None, request.param, 1, 2, None)))
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
    found = Running(testbed, exporter_settings, exporter, reader)
    assert until(lambda: shown_by(exporter).prompt > 0 and found.stored().prompt > 0)
    return found


def shown_by(one: Child) -> TokenSplit:
    return scraped_tokens(httpx.get(one.addresses["metrics_url"]).text)


@pytest.mark.parametrize("running", [15.0], indirect=True)
def test_an_exporter_killed_in_the_middle_loses_and_doubles_nothing(opened, running, tmp_path):
    """It is started again on the same addresses and reads again what the engines' hooks still hold.

    Records sent, the store, and the two exporters' pages together agree to the token: Prometheus adds up the
    same over a counter reset. Coverage tells of the restart, and of none of an engine.
    """
    testbed, exporter = running.testbed, running.exporter
    before = shown_by(exporter)
    os.kill(exporter.pid, signal.SIGKILL)
    exporter.stop()
    again = started(opened, "export", Settings(exporter=running.exporter_settings), tmp_path)

    assert testbed.wait(PATIENCE_SECONDS)
    assert until(lambda: running.stored() == testbed.sent()), (running.stored(), testbed.sent())
    assert before.prompt > 0
    assert before + shown_by(again) == testbed.sent()
    feeds = [part for part in running.reader.coverage(ALL_TIME) if part.source.kind is SourceKind.FEED]
    assert sum(part.restarts for part in feeds) == 1
    assert sum(part.missing for part in feeds) == 0
    assert set(running.restarts(SourceKind.VLLM_HOOK).values()) == {0}


@pytest.mark.parametrize("running", [PATIENCE_SECONDS], indirect=True)
def test_an_engine_that_restarts_while_its_exporter_is_down_is_told_of(opened, running, tmp_path):
    """What it said in between is gone with it; that it restarted, coverage tells, and of no other engine."""
    exporter = running.exporter
    page = until((tmp_path / "page.json").exists)
    os.kill(exporter.pid, signal.SIGKILL)
    exporter.stop()
    running.testbed.restart(0)
    started(opened, "export", Settings(exporter=running.exporter_settings), tmp_path)

    def told():
        restarts = running.restarts(SourceKind.VLLM_HOOK)
        return {owner.split("/")[2]: count for owner, count in restarts.items() if count}

    assert page
    assert until(lambda: told() == {running.testbed.config.replica_name(0): 1}), told()
