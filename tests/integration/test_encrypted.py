"""Exporter and collector that trust nobody: pages over TLS for known clients, a feed for known collectors."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace

import httpx
import pytest
import zmq
from typer.testing import CliRunner

from collectors.collector import Collector
from exporters.process import Exporter
from tests.certificates import Authority
from tests.exporting import Scrape, await_true
from tests.ports import free_port
from tierscope.cli.feed_keys import COLLECTOR_KEY, EXPORTER_KEY, EXPORTER_PUBLIC, READERS
from tierscope.cli.main import app
from tierscope.cli.settings_file import load_settings, write_settings
from tierscope.domain.settings import (
    CollectorSettings,
    EngineSettings,
    ExporterSettings,
    FeedSource,
    Settings,
)
from tierscope.domain.tls_settings import FeedClientKeys, FeedServerKeys, TlsSettings
from tierscope.registry import metrics

FEED = "feed:node"

AWAY = EngineSettings(
    namespace="n", endpoint="e", replica="r", metrics_url=f"http://127.0.0.1:{free_port()}/metrics"
)
"""An engine that does not answer, which is something to publish."""


@pytest.fixture
def authority(tmp_path):
    """Who signs."""
    return Authority(tmp_path / "ca")


@pytest.fixture
def settings(authority, tmp_path):
    """Both processes' settings, read from a file as people write them."""
    issued = authority.issue("node")
    tls = TlsSettings(
        certificate_file=str(issued.certificate),
        key_file=str(issued.key),
        client_ca_file=str(authority.certificate),
    )
    keys = tmp_path / "keys"
    assert CliRunner().invoke(app, ["feed-keys", str(keys)]).exit_code == 0
    written = Settings(
        exporter=ExporterSettings(
            name="node",
            tls=tls,
            feed_keys=FeedServerKeys(key_file=str(keys / EXPORTER_KEY), clients_file=str(keys / READERS)),
        ),
        collector=CollectorSettings(
            store_path=str(tmp_path / "store.duckdb"),
            tls=tls,
            feed_keys=FeedClientKeys(
                key_file=str(keys / COLLECTOR_KEY), server_key_file=str(keys / EXPORTER_PUBLIC)
            ),
        ),
    )
    write_settings(written, tmp_path / "tierscope.yaml")
    return load_settings(tmp_path / "tierscope.yaml")


@contextmanager
def collecting(settings, exporter):
    """A collector of the exporter's feed; its page's address."""
    where = exporter.addresses
    feed = FeedSource(name="node", endpoint=where.feed_endpoint, replay_endpoint=where.feed_replay_endpoint)
    collector = Collector(replace(settings, feeds=(feed,)), recommend=lambda *_, **__: None)
    with closing(collector):
        collector.start()
        yield collector.addresses["metrics_url"]


def of_feed(metric, url, context):
    """What a collector's page says of its feed; None where it says nothing."""
    return Scrape(url, context=context).sums(metric, "source").get(FEED)


def unknown(keys, folder):
    """A secret key of its own, that no exporter lets in."""
    _, secret = zmq.curve_keypair()
    path = folder / "strangers.key"
    path.write_bytes(secret)
    return replace(keys, key_file=str(path))


def test_a_known_collector_reads_the_feed_and_known_clients_the_pages(settings, authority):
    """Everything over the network is encrypted, and each end shows who it is."""
    known = authority.client(authority.issue("prometheus"))
    with Exporter(settings.exporter) as exporter, collecting(settings.collector, exporter) as url:
        await_true(lambda: of_feed(metrics.SOURCE_UP, url, known) == 1.0, "the feed is read")
        for page in (url, exporter.addresses.metrics_url):
            assert httpx.get(page, verify=known).status_code == 200
            with pytest.raises(httpx.HTTPError):
                httpx.get(page, verify=authority.client())


@pytest.mark.parametrize("shows", ["no key", "a key that nobody knows"])
def test_a_stranger_reads_nothing_of_what_a_known_collector_has(settings, authority, tmp_path, shows):
    """It was there first, and its page says that the feed is down."""
    page = authority.client(authority.issue("prometheus"))
    stranger = replace(
        settings.collector,
        store_path=str(tmp_path / "stranger.duckdb"),
        feed_keys=None if shows == "no key" else unknown(settings.collector.feed_keys, tmp_path),
    )
    with (
        Exporter(replace(settings.exporter, engines=(AWAY,))) as exporter,
        collecting(stranger, exporter) as strangers_url,
        collecting(settings.collector, exporter) as url,
    ):
        await_true(
            lambda: of_feed(metrics.COMPLETENESS, url, page) == 1.0,
            "the known collector has what was published",
        )
        assert of_feed(metrics.SOURCE_UP, strangers_url, page) == 0.0
        assert of_feed(metrics.SOURCE_MESSAGES, strangers_url, page) == 0.0
        assert of_feed(metrics.COMPLETENESS, strangers_url, page) is None
