"""A running exporter among sources that hang, lie, die and come back."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace

import msgspec
import pytest

from exporters.process import Exporter
from tests.captured import ENGINE, ENGINE_SETTINGS, hook_payloads
from tests.exporting import Scrape, await_true, first_batches
from tests.otlp_receiver import OtlpReceiver
from tests.page_server import PageServer
from tests.ports import free_port
from tierscope.domain.errors import BadSettings
from tierscope.domain.events import SourceCoverage
from tierscope.domain.requests import NO_TOKENS, RequestRecord, TokenSplit
from tierscope.domain.settings import CurvineSettings, ExporterSettings, LmcacheSettings
from tierscope.feed.stream_publisher import StreamPublisher
from tierscope.registry import metrics
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

ANY = "tcp://127.0.0.1:*"
HOOK = f"vllm_hook:{ENGINE}"
EVENTS = f"vllm_events:{ENGINE}"
PAGE = f"vllm_metrics:{ENGINE}"

ENGINE_PAGE = b"""vllm:prompt_tokens_total{engine="0",model_name="m"} 5
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 5
"""

pack = msgspec.msgpack.encode


@pytest.fixture
def pages(opened):
    return opened.enter_context(PageServer({"/metrics": ENGINE_PAGE}))


@pytest.fixture
def exporting(opened, tmp_path):
    def start(*engines, **settings):
        return opened.enter_context(
            Exporter(
                ExporterSettings(
                    **{
                        "name": "test",
                        "engines": engines,
                        "poll_seconds": 0.05,
                        "timeout_seconds": 0.3,
                        "page_state_file": str(tmp_path / "page.json"),
                    }
                    | settings
                )
            )
        )

    return start


def scrape(exporter):
    return Scrape(exporter.addresses.metrics_url)


def up(exporter):
    return scrape(exporter).sums(metrics.SOURCE_UP, "source")


def messages(exporter, source):
    return scrape(exporter).sums(metrics.SOURCE_MESSAGES, "result", source=source)


def admit(rid, prompt=10):
    return {"t": "admit", "ts": 10.0, "rid": rid, "prompt": prompt, "arrival": 9.0}


def first(rid):
    return {"t": "first", "ts": 10.5, "rid": rid, "ttft_s": 1.5}


def hook_engine(publisher):
    return replace(
        ENGINE_SETTINGS, hook_endpoint=publisher.endpoint, hook_replay_endpoint=publisher.replay_endpoint
    )


def test_an_unreachable_engine_is_named_once_and_the_rest_goes_on(pages, exporting, caplog):
    """UD-19: its source is down and incomplete; the other engine's numbers are all there."""
    caplog.set_level(logging.WARNING)
    gone = replace(ENGINE_SETTINGS, replica="gone", metrics_url=f"http://127.0.0.1:{free_port()}/metrics")
    exporter = exporting(gone, replace(ENGINE_SETTINGS, metrics_url=f"{pages.url}/metrics"))
    lost = "vllm_metrics:serving/chat/gone/0"
    await_true(lambda: messages(exporter, lost).get("missing", 0) >= 5, "it was tried five times")
    await_true(lambda: messages(exporter, PAGE).get("received", 0) >= 5, "the other was read five times")

    assert up(exporter) == {lost: 0, PAGE: 1}
    assert scrape(exporter).sums(metrics.COMPLETENESS, "source")[lost] == 0
    told = [record.getMessage() for record in caplog.records if lost in record.getMessage()]
    assert len(told) == 1
    assert "check the address" in told[0]


def test_sources_that_hang_delay_neither_scrapes_nor_the_others(pages, exporting):
    """Two of three pages accept and never answer: a scrape is read meanwhile, and the third goes on."""
    pages.hung |= {"/slow/metrics", "/slower/metrics"}
    hanging = [
        replace(ENGINE_SETTINGS, replica=name, metrics_url=f"{pages.url}/{name}/metrics")
        for name in ("slow", "slower")
    ]
    exporter = exporting(
        *hanging, replace(ENGINE_SETTINGS, metrics_url=f"{pages.url}/metrics"), timeout_seconds=60.0
    )
    await_true(lambda: len(pages.hung & set(pages.asked)) == 2, "both were asked and hang")

    before = messages(exporter, PAGE).get("received", 0)
    await_true(lambda: messages(exporter, PAGE)["received"] >= before + 5, "the third was read on")

    assert up(exporter)[PAGE] == 1
    assert up(exporter)["vllm_metrics:serving/chat/slow/0"] == 0
    pages.close()  # so that closing the exporter need not wait for them


def test_a_source_comes_back(pages, exporting, caplog):
    """What a dead source said of its tiers is no longer shown; when it is back, so is that."""
    caplog.set_level(logging.INFO)
    pages.pages["/status"] = (
        b'{"storage_manager":{"l1_manager":{"memory_used_bytes":1,"memory_total_bytes":9}}}'
    )
    pages.pages["/metrics"] = b"lmcache_mp_lookup_requested_tokens_total 1\n"
    exporter = exporting(lmcache=(LmcacheSettings(name="node-1", url=pages.url),))
    await_true(lambda: scrape(exporter).sums(metrics.CAPACITY_BYTES), "it was read")
    page = pages.pages.pop("/metrics")
    await_true(lambda: up(exporter)["lmcache_metrics:node-1"] == 0, "it is down")

    assert scrape(exporter).sums(metrics.CAPACITY_BYTES) == {}

    pages.pages["/metrics"] = page
    await_true(lambda: scrape(exporter).sums(metrics.CAPACITY_BYTES), "it is back")
    assert "lmcache_metrics:node-1: is back" in caplog.messages


def test_garbage_on_a_page_costs_its_lines(pages, exporting, caplog):
    """It is counted at every reading, named once with its line, and the counters beside it are read."""
    caplog.set_level(logging.WARNING)
    pages.pages["/metrics"] = b"}{ garbage\n" + ENGINE_PAGE
    exporter = exporting(replace(ENGINE_SETTINGS, metrics_url=f"{pages.url}/metrics"))
    await_true(lambda: messages(exporter, PAGE).get("received", 0) >= 3, "it was read three times")

    unknown = scrape(exporter).sums(metrics.UNKNOWN_INPUT, "source", "what")
    assert unknown[PAGE, "unreadable metric line"] >= 3
    assert up(exporter)[PAGE] == 1
    told = [message for message in caplog.messages if "garbage" in message]
    assert len(told) == 1
    assert "line 1 " in told[0]


def test_an_undecodable_payload_costs_itself(publisher, exporting, caplog):
    """The records before and after it are counted; the stream says what it lost."""
    caplog.set_level(logging.WARNING)
    for payload in (pack([admit("a"), first("a")]), b"\xc1 nonsense", b"", pack([admit("b"), first("b")])):
        publisher.publish(payload)
    exporter = exporting(hook_engine(publisher))
    await_true(lambda: sum(messages(exporter, HOOK).values()) == 4, "all four were seen")

    assert messages(exporter, HOOK) == {"received": 2, "missing": 0, "undecodable": 2}
    assert scrape(exporter).split(metrics.REQUEST_TOKENS) == TokenSplit(20, computed=20)
    assert scrape(exporter).sums(metrics.COMPLETENESS, "source")[HOOK] == 0.5
    assert len([message for message in caplog.messages if "cannot be read" in message]) == 1


def test_every_admission_is_a_span(captures, publisher, exporting, opened):
    """First admissions and re-admissions go to the OTLP address, one span each and one a load."""
    receiver = opened.enter_context(closing(OtlpReceiver()))
    for payload in hook_payloads(captures / "observer" / "b_offloading"):
        publisher.publish(payload)

    exporter = exporting(hook_engine(publisher), otlp_endpoint=receiver.endpoint)

    await_true(lambda: len(receiver.spans) >= 54, "all spans arrived")
    assert Counter(span.name for span in receiver.spans) == {"kv.lookup": 46, "kv.load": 8}
    assert scrape(exporter).sums(metrics.SPANS_BY_RESULT, "result")["not_taken"] == 0


def test_a_restarted_engine_is_counted_on(publisher, exporting, opened):
    """UD-30: what was open stays unresolved; the new life's records add to the old one's."""
    publisher.publish(pack([admit("a"), first("a"), admit("open")]))
    exporter = exporting(hook_engine(publisher))
    await_true(lambda: messages(exporter, HOOK).get("received") == 1, "the first life was read")
    endpoint, replay_endpoint = publisher.endpoint, publisher.replay_endpoint
    publisher.close()
    reborn = opened.enter_context(closing(StreamPublisher(endpoint, replay_endpoint, buffer_bytes=1 << 20)))
    reborn.publish(pack([admit("b"), first("b")]))
    await_true(lambda: messages(exporter, HOOK)["received"] == 2, "the second life was read")

    page = scrape(exporter)
    assert page.split(metrics.REQUEST_TOKENS) == TokenSplit(20, computed=20)
    assert page.sums(metrics.REQUESTS, "status") == {"served": 2, "unresolved": 1}
    assert page.sums(metrics.SOURCE_RESTARTS, "source")[HOOK] == 1


def test_lost_events_are_missing_and_residency_is_absent(opened, exporting, pages):
    """UD-30: a ring that no longer reaches back is a gap: the share is told, and no wrong figure is shown."""
    small = opened.enter_context(closing(StreamPublisher(ANY, ANY, buffer_bytes=2000)))
    for block in range(200):
        event = {"type": "BlockStored", "block_hashes": [block], "block_size": 16, "medium": "GPU"}
        small.publish(pack([1.0, [event], 0]))
    exporter = exporting(
        replace(
            ENGINE_SETTINGS,
            metrics_url=f"{pages.url}/metrics",
            events_endpoint=small.endpoint,
            events_replay_endpoint=small.replay_endpoint,
        )
    )
    await_true(lambda: sum(messages(exporter, EVENTS).values()) == 200, "the stream was caught up with")

    counts = messages(exporter, EVENTS)
    assert counts["missing"] > 0
    page = scrape(exporter)
    assert page.sums(metrics.COMPLETENESS, "source")[EVENTS] == counts["received"] / 200
    assert page.sums(metrics.STORED_BLOCKS, "tier") == {"l0": counts["received"]}
    assert page.sums(metrics.RESIDENT_BLOCKS) == {}


def test_coverage_of_every_source_is_on_the_feed(publisher, pages, exporting):
    """Intervals add up to what the page says, the last one at the close."""
    publisher.publish(pack([admit("a"), first("a")]))
    exporter = exporting(replace(hook_engine(publisher), metrics_url=f"{pages.url}/metrics"))

    def told():
        batches = int(scrape(exporter).sums(metrics.FEED_BATCHES)[()])
        coverage = [e for e in first_batches(exporter, batches) if isinstance(e, SourceCoverage)]
        return {str(entry.source) for entry in coverage} == {HOOK, PAGE}

    await_true(told, "both sources' coverage was published")


def test_many_workers_are_a_share_of_all(pages, exporting):
    """A pool with a lost worker is as complete as its workers, and says whom it misses."""
    worker = '{"address":{"worker_id":%d},"capacity":10,"fs_used":4,"available":6,"status":"%s"}'
    live, lost = ",".join(worker % (n, "Live") for n in range(3)), worker % (3, "Lost")
    pages.pages |= {
        "/api/overview": b'{"master_state":"Active"}',
        "/api/workers": f'{{"live_workers":[{live}],"lost_workers":[{lost}]}}'.encode(),
        "/metrics": b"inode_file_num 7\n",
    }
    exporter = exporting(
        curvine=(CurvineSettings(name="pool", master_urls=(pages.url,), read_workers=False),)
    )
    await_true(lambda: scrape(exporter).sums(metrics.CAPACITY_BYTES), "the pool was read")

    page = scrape(exporter)
    assert page.sums(metrics.COMPLETENESS, "source") == {"curvine_master:pool": 0.75}
    assert page.sums(metrics.CAPACITY_BYTES, "holder") == {"pool": 30}
    assert set(page.sums(metrics.FINDING, "kind")) == {"pool_full", "pool_worker_lost"}


def test_closing_leaves_no_thread_and_no_address(captures, publisher, pages, opened):
    """Twice is as good as once, and its addresses can be bound again."""
    for payload in hook_payloads(captures / "observer" / "a_alone"):
        publisher.publish(payload)
    before = set(threading.enumerate())
    exporter = Exporter(
        ExporterSettings(
            name="test",
            engines=(replace(hook_engine(publisher), metrics_url=f"{pages.url}/metrics"),),
            poll_seconds=0.05,
        )
    )
    exporter.start()
    addresses = exporter.addresses

    exporter.close()
    exporter.close()

    await_true(lambda: set(threading.enumerate()) <= before | set(_handlers()), "all threads have ended")
    with closing(StreamPublisher(addresses.feed_endpoint, addresses.feed_replay_endpoint, buffer_bytes=1000)):
        pass


def _handlers():
    """Threads of the page server that a kept-alive connection may hold for a moment."""
    return [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]


def test_an_address_in_use_is_a_setting_to_mend(publisher):
    """Starting fails by name, and frees what it had bound before."""
    settings = ExporterSettings(name="test", feed_replay_endpoint=publisher.replay_endpoint)

    with pytest.raises(BadSettings) as caught:
        Exporter(settings).start()

    assert publisher.replay_endpoint in str(caught.value)


def test_a_running_testbed_is_counted_to_the_token(opened, tmp_path):
    """Engines of another make, with evictions and aborts: tokens sent = shown = on the feed."""
    config = TestbedConfig(replicas=2, duration_seconds=240, speed=120, seed=7)
    testbed = opened.enter_context(Testbed(config))
    state = str(tmp_path / "page.json")
    settings = replace(testbed.settings(), name="test", poll_seconds=0.2, page_state_file=state)
    exporter = opened.enter_context(Exporter(settings))
    await_true(lambda: testbed.finished, "the testbed's traffic has ended")
    await_true(
        lambda: scrape(exporter).split(metrics.REQUEST_TOKENS) == testbed.sent(), "all it sent is shown"
    )

    page = scrape(exporter)
    entries = first_batches(exporter, int(page.sums(metrics.FEED_BATCHES)[()]))

    records = [entry for entry in entries if isinstance(entry, RequestRecord)]
    assert testbed.sent().prompt > 100_000
    assert sum((record.tokens for record in records if record.counts), NO_TOKENS) == testbed.sent()
    assert set(page.sums(metrics.COMPLETENESS, "source").values()) == {1.0}
    assert set(page.sums(metrics.SOURCE_UP, "source").values()) == {1.0}
    assert page.sums(metrics.UNKNOWN_INPUT) == {}
