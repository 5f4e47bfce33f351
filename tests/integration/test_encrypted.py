"""Exporter and collector that trust nobody: pages over TLS for known clients, a feed for known collectors."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace

import httpx
import pytest
from typer.testing import CliRunner

from collectors.collector import Collector
from exporters.process import Exporter
from tests.certificates import Authority
from tests.exporting import await_true
from tierscope.cli.feed_keys import COLLECTOR_KEY, EXPORTER_KEY, EXPORTER_PUBLIC, READERS
from tierscope.cli.main import app
from tierscope.cli.settings_file import load_settings, write_settings
from tierscope.domain.settings import CollectorSettings, ExporterSettings, FeedSource, Settings
from tierscope.domain.tls_settings import FeedClientKeys, FeedServerKeys, TlsSettings

FEED_UP = 'tierscope_source_up{source="feed:node"}'


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


def test_a_known_collector_reads_the_feed_and_known_clients_the_pages(settings, authority):
    """Everything over the network is encrypted, and each end shows who it is."""
    known = authority.client(authority.issue("prometheus"))
    with Exporter(settings.exporter) as exporter, collecting(settings.collector, exporter) as url:
        await_true(lambda: f"{FEED_UP} 1.0" in httpx.get(url, verify=known).text, "the feed is read")
        for page in (url, exporter.addresses.metrics_url):
            assert httpx.get(page, verify=known).status_code == 200
            with pytest.raises(httpx.HTTPError):
                httpx.get(page, verify=authority.client())


def test_a_collector_without_the_key_reads_nothing(settings, authority):
    """Its page says that the feed is down."""
    known = authority.client(authority.issue("prometheus"))
    stranger = replace(settings.collector, feed_keys=None)
    with Exporter(settings.exporter) as exporter, collecting(stranger, exporter) as url:
        await_true(lambda: f"{FEED_UP} 0.0" in httpx.get(url, verify=known).text, "the feed is shown as down")
        assert f"{FEED_UP} 1.0" not in httpx.get(url, verify=known).text
