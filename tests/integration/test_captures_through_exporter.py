"""What real engines said, through a running exporter: on its page and on its feed, to the token."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from exporters.process import Exporter
from tests.captured import (
    ENGINE,
    ENGINE_SETTINGS,
    admissions_under_lmcache,
    event_payloads,
    hook_payloads,
    lmcache_payloads,
)
from tests.exporting import Scrape, await_true, first_batches
from tests.page_server import PageServer
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EngineTokens,
    TierActivity,
    TierSample,
    TierTransfer,
)
from tierscope.domain.names import beginning_of
from tierscope.domain.requests import NO_TOKENS, RequestRecord, TokenSplit
from tierscope.domain.settings import CurvineSettings, ExporterSettings, LmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.registry import metrics
from tierscope.registry.transfer_metrics import FAILED_TRANSFERS, TRANSFERRED_BYTES

RUN_TOKENS = {
    "vllm/run-a-prefix-cache": TokenSplit(11_244, l0=3_488, computed=7_756),
    "vllm/run-b-offload-tiers": TokenSplit(15_193, l0=3_072, l1=256, l2=3_776, computed=8_089),
    "vllm/run-c-data-parallel": TokenSplit(2_279, l0=960, computed=1_319),
    "observer/a_alone": TokenSplit(15_976, l0=3_488, computed=12_488),
    "observer/b_offloading": TokenSplit(16_588, l0=3_488, l1=256, l2=1_312, computed=11_532),
    "observer/c_lmcache_mp": TokenSplit(15_976, l0=3_488, external=1_472, computed=11_016),
}


@pytest.fixture
def pages(opened):
    return opened.enter_context(PageServer())


@pytest.fixture
def exporting(opened, tmp_path):
    """Return a function that starts an exporter for some settings."""

    def start(**settings):
        settings |= {"name": "test", "page_state_file": str(tmp_path / "page.json")}
        return opened.enter_context(Exporter(ExporterSettings(poll_seconds=0.05, **settings)))

    return start


def scrape(exporter):
    return Scrape(exporter.addresses.metrics_url)


def received(exporter, kind, units, owner=ENGINE):
    """Whether a source's stream has delivered so many units."""
    counts = scrape(exporter).sums(metrics.SOURCE_MESSAGES, "result", source=f"{kind}:{owner}")
    return counts.get("received", 0) >= units


def entries_shown(exporter):
    """A scrape, and the entries of exactly the batches that it sums."""
    page = scrape(exporter)
    return page, first_batches(exporter, int(page.sums(metrics.FEED_BATCHES)[()]))


@pytest.mark.parametrize("run", RUN_TOKENS)
def test_an_engines_own_counters_arrive_to_the_token(captures, pages, exporting, run):
    """From the page before a workload to the page after it, on /metrics and on the feed alike."""
    before, after = ((captures / run / f"metrics_{when}.txt").read_bytes() for when in ("before", "after"))
    pages.pages["/metrics"] = before
    exporter = exporting(engines=(replace(ENGINE_SETTINGS, metrics_url=f"{pages.url}/metrics"),))
    await_true(lambda: received(exporter, "vllm_metrics", 1), "the first page was read")
    pages.pages["/metrics"] = after
    await_true(
        lambda: scrape(exporter).split(metrics.ENGINE_TOKENS) == RUN_TOKENS[run], "all tokens are shown"
    )

    page, entries = entries_shown(exporter)

    assert page.split(metrics.ENGINE_TOKENS) == RUN_TOKENS[run]
    on_the_feed = [entry.tokens for entry in entries if isinstance(entry, EngineTokens)]
    assert sum(on_the_feed, NO_TOKENS) == RUN_TOKENS[run]
    ranks = 2 if run.endswith("data-parallel") else 1
    assert list(page.sums(metrics.CAPACITY_BLOCKS, "holder").values()) == [63] * ranks


@pytest.mark.parametrize("run", ["a_alone", "b_offloading", "c_lmcache_mp"])
def test_hook_records_arrive_to_the_token(captures, publish, exporting, run):
    """First admissions that reached a first token, by origin; the rest are requests, not tokens."""
    payloads = hook_payloads(captures / "observer" / run)
    endpoint, replay = publish(payloads)
    exporter = exporting(
        engines=(replace(ENGINE_SETTINGS, hook_endpoint=endpoint, hook_replay_endpoint=replay),)
    )
    await_true(lambda: received(exporter, "vllm_hook", len(payloads)), "every payload was read")

    page, entries = entries_shown(exporter)

    told = RUN_TOKENS[f"observer/{run}"]
    records = [entry for entry in entries if isinstance(entry, RequestRecord)]
    assert page.split(metrics.REQUEST_TOKENS) == told
    assert sum((record.tokens for record in records if record.counts), NO_TOKENS) == told
    assert page.sums(metrics.REQUESTS, "status") == Counter(record.status for record in records)
    waited = page.sums(metrics.COMPLETENESS, "source")
    assert waited == {f"vllm_hook:{ENGINE}": 1.0}
    assert "sess-" not in page.text, "sessions stay private"


@pytest.mark.parametrize(
    ("run", "stored", "evicted"),
    [
        ("run-a-prefix-cache", {"l0": 287}, {"capacity": 225, "clear": 62}),
        (
            "run-b-offload-tiers",
            {"l0": 375, "l1": 347, "l2": 229},
            {"capacity": 18, "demoted": 295 + 187, "clear": 62},
        ),
    ],
)
def test_kv_events_arrive_to_the_block(captures, publish, exporting, run, stored, evicted):
    """Copies stored and evicted by tier and reason, as counted in the recorded stream."""
    payloads = event_payloads(captures / "vllm" / run / "kv_events.jsonl")
    endpoint, replay = publish(payloads)
    exporter = exporting(
        engines=(replace(ENGINE_SETTINGS, events_endpoint=endpoint, events_replay_endpoint=replay),)
    )
    await_true(lambda: received(exporter, "vllm_events", len(payloads)), "every batch was read")

    page, entries = entries_shown(exporter)

    assert page.sums(metrics.STORED_BLOCKS, "tier") == stored
    assert page.sums(metrics.EVICTED_BLOCKS, "reason") == evicted
    assert page.sums(metrics.UNKNOWN_INPUT) == {}
    on_the_feed = Counter()
    for event in entries:
        if isinstance(event, BlockEvent) and event.action is BlockAction.STORED:
            on_the_feed[event.tier] += len(event.block_hashes)
    assert on_the_feed == stored


def test_an_lmcache_server_is_l1_and_its_view_of_l2(captures, pages, exporting):
    """Sizes from /status at once; activities are of what is counted after the first reading."""
    folder = captures / "lmcache" / "mp_pull"
    page = (folder / "metrics.txt").read_bytes()
    pages.pages["/status"] = (folder / "status.json").read_bytes()
    nothing_yet = [line for line in page.splitlines() if b"lmcache_mp_" in line and line[:1] != b"#"]
    pages.pages["/metrics"] = b"\n".join(line.rsplit(b" ", 1)[0] + b" 0.0" for line in nothing_yet)
    exporter = exporting(lmcache=(LmcacheSettings(name="node-1", url=pages.url, pool="curvine"),))
    await_true(lambda: scrape(exporter).sums(metrics.USED_BYTES), "the first page was read")
    pages.pages["/metrics"] = page
    await_true(lambda: scrape(exporter).sums(metrics.STORED_BLOCKS, "tier").get("l2") == 64, "it grew")

    shown, entries = entries_shown(exporter)

    assert shown.sums(metrics.LOOKUP_TOKENS, "tier", "result") == {
        ("l1", "hit"): 1_024,
        ("l1", "miss"): 8_576,
        ("l2", "hit"): 896,
        ("l2", "miss"): 7_680,
    }
    assert shown.sums(metrics.STORED_BLOCKS, "tier") == {"l1": 64, "l2": 64}
    assert shown.sums(metrics.EVICTED_BLOCKS, "tier", "reason") == {("l1", "unknown"): 55}
    assert shown.sums(metrics.FAILED_BLOCKS, "tier") == {"l1": 56}
    assert shown.sums(metrics.CAPACITY_BYTES, "tier", "holder") == {("l1", "node-1"): 4_194_304}
    assert shown.sums(metrics.USED_BYTES, "tier", "holder") == {("l1", "node-1"): 3_014_656}
    activities = [entry for entry in entries if isinstance(entry, TierActivity)]
    assert sum(a.lookup_hit_tokens for a in activities if a.tier is Tier.L2) == 896


def test_a_probed_server_tells_what_its_page_mixes(captures, pages, publish, exporting):
    """Evictions by reason, hits, bytes, refused stores; and of its page, sizes alone."""
    folder = captures / "lmcache" / "mp_pull"
    pages.pages["/metrics"] = (folder / "metrics.txt").read_bytes()
    pages.pages["/status"] = (folder / "status.json").read_bytes()
    payloads = lmcache_payloads(folder / "events.jsonl")
    endpoint, replay = publish(payloads)
    server = LmcacheSettings(
        name="node-1", url=pages.url, pool="pool", records_endpoint=endpoint, records_replay_endpoint=replay
    )
    exporter = exporting(lmcache=(server,))
    await_true(lambda: received(exporter, "lmcache_records", len(payloads), "node-1"), "all was read")
    await_true(lambda: scrape(exporter).sums(metrics.USED_BYTES), "the page was read")

    shown, entries = entries_shown(exporter)

    assert shown.sums(metrics.LOOKUP_TOKENS, "tier", "result") == {
        ("l1", "hit"): 1_024,
        ("l1", "miss"): 8_576,
        ("l2", "hit"): 896,
        ("l2", "miss"): 7_680,
    }
    assert shown.sums(metrics.STORED_BLOCKS, "tier", "holder") == {("l1", "node-1"): 78, ("l2", "pool"): 63}
    assert shown.sums(metrics.EVICTED_BLOCKS, "tier", "reason") == {
        ("l1", "capacity"): 41,
        ("l1", "after_read"): 14,
    }
    assert shown.sums(metrics.RESIDENT_BLOCKS) == {(): 78 - 41 - 14}
    assert shown.sums(metrics.FAILED_BLOCKS, "tier") == {"l1": 56}
    assert shown.sums(FAILED_TRANSFERS, "action", "reason") == {("store", "l1_full"): 56}
    assert shown.sums(TRANSFERRED_BYTES, "tier", "adapter", "action")["l2", "fs", "store"] == 8_257_536
    assert shown.sums(metrics.UNKNOWN_INPUT) == {}
    told = Counter()
    for entry in entries:
        if isinstance(entry, TierTransfer):
            told[entry.tier, entry.action] += entry.moved_blocks
    assert told["l2", "load"] == 14


@pytest.mark.parametrize("run", ["lmcache/mp_vllm_cpu", "observer/c_lmcache_mp"])
def test_a_load_is_split_between_the_tiers_below(captures, publish, exporting, run):
    """To the token, on the page and on the feed: an engine's records joined with its server's."""
    folder = captures / run
    if run.startswith("lmcache"):
        admissions, events = admissions_under_lmcache(folder), "events.jsonl"
        told = TokenSplit(4_450, l0=1_024, l1=256, l2=768, computed=2_402)
    else:
        admissions, events = hook_payloads(folder), "lmcache_events.jsonl"
        told = TokenSplit(15_976, l0=3_488, l2=1_472, computed=11_016)
    records = lmcache_payloads(folder / events)
    hook, hook_replay = publish(admissions)
    endpoint, replay = publish(records)
    exporter = exporting(
        engines=(
            replace(ENGINE_SETTINGS, hook_endpoint=hook, hook_replay_endpoint=hook_replay, lmcache="node"),
        ),
        lmcache=(
            LmcacheSettings(
                name="node",
                url="http://127.0.0.1:9",
                records_endpoint=endpoint,
                records_replay_endpoint=replay,
            ),
        ),
    )
    await_true(lambda: received(exporter, "lmcache_records", len(records), "node"), "the server was read")
    await_true(lambda: scrape(exporter).split(metrics.REQUEST_TOKENS) == told, "every admission was told")

    page, entries = entries_shown(exporter)

    rows = [entry for entry in entries if isinstance(entry, RequestRecord)]
    assert page.split(metrics.REQUEST_TOKENS) == told
    assert sum((row.tokens for row in rows if row.counts), NO_TOKENS) == told
    assert all(row.external_reason is None for row in rows)
    again = sum((row.tokens for row in rows if row.attempt), NO_TOKENS)
    assert (again.l1, again.l2, again.external) == (736 if run.startswith("observer") else 0, 0, 0)
    loads = [load for row in rows if row.tokens.l2 for load in row.lookup.loads]
    assert loads
    assert all(load.started_unix_seconds < load.ended_unix_seconds for load in loads)


def test_requests_name_their_cache_server_as_its_readings_do(captures, pages, publish, exporting):
    """By the name the settings give it: advice knows by it which L1s are an endpoint's own."""
    folder = captures / "observer" / "c_lmcache_mp"
    pages.pages["/metrics"] = (folder / "lmcache_metrics.txt").read_bytes()
    pages.pages["/status"] = (captures / "lmcache" / "mp_vllm_cpu" / "status.json").read_bytes()
    hook, hook_replay = publish(hook_payloads(folder))
    records = lmcache_payloads(folder / "lmcache_events.jsonl")
    endpoint, replay = publish(records)
    engine = replace(ENGINE_SETTINGS, hook_endpoint=hook, hook_replay_endpoint=hook_replay, lmcache="node-1")
    server = LmcacheSettings(
        name="node-1", url=pages.url, records_endpoint=endpoint, records_replay_endpoint=replay
    )
    exporter = exporting(engines=(engine,), lmcache=(server,))
    await_true(lambda: received(exporter, "lmcache_records", len(records), "node-1"), "the server was read")
    await_true(lambda: scrape(exporter).split(metrics.REQUEST_TOKENS).l2 == 1_472, "every admission was told")
    await_true(lambda: scrape(exporter).sums(metrics.USED_BYTES), "the page was read")

    _, entries = entries_shown(exporter)

    found = [beginning_of(entry) for entry in entries if isinstance(entry, RequestRecord)]
    asked = {beginning.server for beginning in found if beginning is not None}
    held = {one.holder for one in entries if isinstance(one, TierSample) and one.tier is Tier.L1}
    assert asked == held == {"node-1"}


def test_a_curvine_pool_is_l2(captures, pages, exporting):
    """Its size and use, from the active master of two."""
    folder = captures / "curvine"
    pages.pages["/api/overview"] = (folder / "api-overview.derived.json").read_bytes()
    pages.pages["/api/workers"] = (folder / "api-workers-main.derived.json").read_bytes()
    pages.pages["/metrics"] = (folder / "master-main.derived.prom").read_bytes()
    masters = (f"{pages.url}/standby", pages.url)
    exporter = exporting(curvine=(CurvineSettings(name="pool", master_urls=masters, read_workers=False),))
    await_true(lambda: scrape(exporter).sums(metrics.USED_BYTES), "the pool was read")

    shown, entries = entries_shown(exporter)

    assert shown.sums(metrics.CAPACITY_BYTES, "tier", "holder") == {("l2", "pool"): 214_748_364_800}
    assert shown.sums(metrics.USED_BYTES, "tier", "holder") == {("l2", "pool"): 17_616_076_800}
    assert shown.sums(metrics.COMPLETENESS, "source") == {"curvine_master:pool": 1.0}
    samples = [entry for entry in entries if isinstance(entry, TierSample)]
    assert {sample.used_blocks for sample in samples} == {1_200}
