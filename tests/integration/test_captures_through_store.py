"""What real engines said, through exporter, feed and collector, asked of the store: to the token."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from collectors.collector import Collector
from exporters.process import Exporter
from tests.captured import ENGINE, ENGINE_SETTINGS, event_payloads, hook_payloads
from tests.exporting import await_true
from tests.page_server import PageServer
from tierscope.domain.requests import TokenSplit
from tierscope.domain.settings import CollectorSettings, ExporterSettings, FeedSource
from tierscope.domain.window import TimeSpan

ALL_TIME = TimeSpan(0.0, 1e11)
COUNTED = {
    "vllm/run-a-prefix-cache": TokenSplit(11_244, l0=3_488, computed=7_756),
    "vllm/run-b-offload-tiers": TokenSplit(15_193, l0=3_072, l1=256, l2=3_776, computed=8_089),
}
RECORDED = {
    "a_alone": TokenSplit(15_976, l0=3_488, computed=12_488),
    "b_offloading": TokenSplit(16_588, l0=3_488, l1=256, l2=1_312, computed=11_532),
}


@pytest.fixture
def exporting(opened, tmp_path):
    """Return a function that starts an exporter for an engine's settings."""

    def start(engine, **settings):
        chosen = ExporterSettings(
            name="node",
            poll_seconds=0.05,
            engines=(engine,),
            page_state_file=str(tmp_path / "page.json"),
            **settings,
        )
        return opened.enter_context(Exporter(chosen))

    return start


@pytest.fixture
def collecting(opened, tmp_path):
    """Return a function that starts a collector of an exporter and returns its reader."""

    def start(exporter):
        addresses = exporter.addresses
        feed = FeedSource(
            name="node", endpoint=addresses.feed_endpoint, replay_endpoint=addresses.feed_replay_endpoint
        )
        settings = CollectorSettings(store_path=str(tmp_path / "store"), feeds=(feed,), flush_seconds=0.01)
        collector = opened.enter_context(closing(Collector(settings, recommend=lambda *_, **__: None)))
        collector.start()
        return collector.reader()

    return start


def covered(reader, kind):
    """Units received and missing of the engine's source of a kind."""
    owner = "node" if kind == "feed" else str(ENGINE)
    found = [c for c in reader.coverage(ALL_TIME) if (c.source.kind, c.source.owner) == (kind, owner)]
    return (sum(c.received for c in found), sum(c.missing for c in found))


@pytest.mark.parametrize("run", COUNTED)
def test_an_engines_own_counters_are_in_the_store(captures, opened, exporting, collecting, run):
    """From the page before a workload to the page after it, as the engine counts."""
    pages = opened.enter_context(PageServer())
    pages.pages["/metrics"] = (captures / run / "metrics_before.txt").read_bytes()
    reader = collecting(exporting(replace(ENGINE_SETTINGS, metrics_url=f"{pages.url}/metrics")))
    await_true(lambda: reader.row_counts()["tier_samples"], "the first page was read")

    pages.pages["/metrics"] = (captures / run / "metrics_after.txt").read_bytes()

    def totals():
        return reader.engine_totals(ENGINE.namespace, ENGINE.endpoint, ALL_TIME).tokens

    await_true(lambda: totals() == COUNTED[run], "all tokens are stored")


@pytest.mark.parametrize("run", RECORDED)
def test_hook_records_are_in_the_store(captures, publish, exporting, collecting, run):
    """Sums, window and completeness of the requests, each record once although its exporter restarts."""
    payloads = hook_payloads(captures / "observer" / run)
    endpoint, replay = publish(payloads)
    engine = replace(ENGINE_SETTINGS, hook_endpoint=endpoint, hook_replay_endpoint=replay)
    exporter = exporting(engine)
    reader = collecting(exporter)
    await_true(lambda: covered(reader, "vllm_hook") == (len(payloads), 0), "every record is stored")
    rows = reader.row_counts()["requests"]

    addresses = exporter.addresses
    exporter.close()
    again = exporting(
        engine, feed_endpoint=addresses.feed_endpoint, feed_replay_endpoint=addresses.feed_replay_endpoint
    )
    await_true(
        lambda: covered(reader, "vllm_hook") == (2 * len(payloads), 0), "the new exporter told it all again"
    )
    again.close()

    assert reader.totals(ENGINE.namespace, ENGINE.endpoint, ALL_TIME).tokens == RECORDED[run]
    assert reader.window(ENGINE.namespace, ENGINE.endpoint, ALL_TIME).totals() == RECORDED[run]
    assert reader.row_counts()["requests"] == rows
    (feed,) = (c for c in reader.coverage(ALL_TIME) if c.source.kind == "feed")
    assert (feed.missing, feed.restarts) == (0, 1)


def test_kv_events_are_in_the_store_once(captures, publish, exporting, collecting, tmp_path):
    """Blocks stored and evicted, as counted in the recorded stream, although the exporter restarts."""
    payloads = event_payloads(captures / "vllm" / "run-b-offload-tiers" / "kv_events.jsonl")
    endpoint, replay = publish(payloads)
    engine = replace(ENGINE_SETTINGS, events_endpoint=endpoint, events_replay_endpoint=replay)
    exporter = exporting(engine)
    reader = collecting(exporter)
    await_true(lambda: covered(reader, "vllm_events") == (len(payloads), 0), "every batch is stored")
    addresses = exporter.addresses
    exporter.close()
    exporting(
        engine, feed_endpoint=addresses.feed_endpoint, feed_replay_endpoint=addresses.feed_replay_endpoint
    )
    await_true(lambda: covered(reader, "vllm_events") == (2 * len(payloads), 0), "and told again")

    with reader._database.reading() as cursor:
        found = cursor.execute(
            "SELECT tier, coalesce(reason, action), sum(blocks) FROM block_events GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    stored = {tier: int(blocks) for tier, action, blocks in found if action == "stored"}
    assert stored == {"l0": 375, "l1": 347, "l2": 229}
    left = {action: int(blocks) for tier, action, blocks in found if tier == "l0" and action != "stored"}
    assert left == {"capacity": 18, "demoted": 295, "clear": 62}
    assert sum(int(blocks) for tier, action, blocks in found if (tier, action) == ("l1", "demoted")) == 187
