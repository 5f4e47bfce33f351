"""The ledger counts exactly what it has published, and shows what it has counted."""

from __future__ import annotations

import threading

import pytest

from exporters import ledger as ledger_module
from exporters.ledger import Ledger
from tests.captured import ENGINE
from tierscope.domain.errors import BadInput
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EngineTokens,
    EvictionReason,
    SourceCoverage,
    TierActivity,
    TierSample,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.pool import PoolTraffic, Viewpoint
from tierscope.domain.requests import ExternalReason, RequestRecord, RequestStatus, TokenSplit, TraceContext
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.registry import block_metrics, labels, metrics, pool_metrics
from tierscope.registry.transfer_metrics import TRANSFERRED_BYTES

SOURCE = SourceId(SourceKind.VLLM_HOOK, str(ENGINE))
OTHER = SourceId(SourceKind.LMCACHE_METRICS, "node-1")


class Feed:
    """Keeps what is published; refuses while told to."""

    def __init__(self):
        self.batches = []
        self.refuses = False

    def __call__(self, entries):
        if self.refuses:
            raise BadInput("no", where="feed", fix="yes")
        self.batches.append(tuple(entries))


@pytest.fixture
def feed():
    return Feed()


@pytest.fixture
def ledger(feed):
    return Ledger("exporter", feed)


def record(tokens, status=RequestStatus.SERVED, **fields):
    return RequestRecord(
        **{
            "engine": ENGINE,
            "model": "m",
            "request_id": "r",
            "attempt": int(status is RequestStatus.READMITTED),
            "status": status,
            "tokens": tokens,
            "block_tokens": 16,
            "block_hashes": (),
            "arrived_unix_seconds": 1.0,
            "admitted_unix_seconds": 2.0,
            "external_reason": ExternalReason.NOT_REPORTED if tokens.external else None,
        }
        | fields
    )


def shown(ledger, metric):
    """Values of one metric by the labels that are not the engine's."""
    skip = 5 if metric.labels[:5] == labels.ENGINE else 0
    return {sample.labels[skip:]: sample.value for sample in ledger.samples() if sample.metric is metric}


def test_what_is_of_a_time_before_the_page_is_published_and_not_counted(ledger, feed):
    """Only when its blocks were last used is remembered: the next use is of the page's time."""
    tokens = TokenSplit(16, computed=16)
    ledger.post(SOURCE, [record(tokens, block_hashes=(1,))], on_page=False)
    assert shown(ledger, metrics.REQUEST_TOKENS) == shown(ledger, metrics.REQUESTS) == {}

    again = record(TokenSplit(16, l0=16), block_hashes=(1,), admitted_unix_seconds=12.0)
    ledger.post(SOURCE, [again])

    assert len(feed.batches) == 2
    assert shown(ledger, metrics.REQUEST_TOKENS)["l0",] == 16
    assert shown(ledger, block_metrics.REUSE_GAP)["l0",].sum == 10.0


def test_only_first_admissions_with_a_first_token_enter_the_sums(ledger):
    """All four statuses are counted as requests, one as tokens."""
    tokens = TokenSplit(100, l0=50, l1=10, l2=5, external=5, computed=30)
    ledger.post(SOURCE, [record(tokens, status) for status in RequestStatus])

    assert shown(ledger, metrics.REQUEST_TOKENS) == {
        ("l0",): 50,
        ("l1",): 10,
        ("l2",): 5,
        ("external",): 5,
        ("computed",): 30,
    }
    assert shown(ledger, metrics.REQUESTS) == {(status,): 1 for status in RequestStatus}


def test_times_are_told_by_where_they_were_spent(ledger):
    """Time to first token by the outermost tier that served, load time by the outermost one loaded from."""
    ledger.post(
        SOURCE,
        [
            record(TokenSplit(10, l0=5, l1=5), ttft_seconds=0.2, load_seconds=0.01),
            record(TokenSplit(10, l0=5, computed=5), ttft_seconds=0.3),
            record(TokenSplit(10, computed=10), RequestStatus.ABORTED),
            record(TokenSplit(10, l2=5, computed=5), RequestStatus.READMITTED, load_seconds=0.5),
        ],
    )

    ttft = shown(ledger, metrics.TIME_TO_FIRST_TOKEN)
    loads = shown(ledger, metrics.LOAD_SECONDS)
    assert {labels: (sum(value.counts), value.sum) for labels, value in ttft.items()} == {
        ("l1",): (1, 0.2),
        ("l0",): (1, 0.3),
    }
    assert {labels: (sum(value.counts), value.sum) for labels, value in loads.items()} == {
        ("l1",): (1, 0.01),
        ("l2",): (1, 0.5),
    }


def test_what_moves_in_a_pool_is_counted_by_who_saw_it(ledger):
    """Never added over worker and client; what a process does not count is absent."""
    ledger.post(
        SOURCE,
        [
            PoolTraffic("kv", Viewpoint.WORKER, "w0", 1.0, 2.0, 100, 50, 0.5, 0.25, 10, 5, 1, 2),
            PoolTraffic("kv", Viewpoint.WORKER, "w0", 2.0, 3.0, read_bytes=11, remote_opens=1),
            PoolTraffic("kv", Viewpoint.FUSE, "node:9002", 1.0, 2.0, read_bytes=100),
        ],
    )

    assert shown(ledger, pool_metrics.MOVED_BYTES) == {
        ("kv", "worker", "w0", "read"): 111,
        ("kv", "worker", "w0", "write"): 50,
        ("kv", "fuse", "node:9002", "read"): 100,
    }
    assert shown(ledger, pool_metrics.MOVING_SECONDS)["kv", "worker", "w0", "write"] == 0.25
    assert shown(ledger, pool_metrics.MOVES)["kv", "worker", "w0", "read"] == 10
    assert shown(ledger, pool_metrics.BLOCK_OPENS) == {
        ("kv", "w0", "local"): 1,
        ("kv", "w0", "remote"): 3,
    }


def test_block_events_and_activities_are_counted_by_tier_and_holder(ledger):
    """Stored, evicted with their reason, refused, looked up."""
    ledger.post(
        SOURCE,
        [
            BlockEvent(Tier.L0, "e", BlockAction.STORED, (1, 2, 3), 1.0),
            BlockEvent(Tier.L0, "e", BlockAction.EVICTED, (1,), 1.0, reason=EvictionReason.CAPACITY),
            BlockEvent(Tier.L0, "e", BlockAction.EVICTED, (2, 3), 1.0, reason=EvictionReason.CLEAR),
            TierActivity(Tier.L1, "s", 1.0, 2.0, 64, 32, 5, 4, 3),
            TierActivity(Tier.L1, "s", 2.0, 3.0, 1, 1, 1, 1, 1),
            TierActivity(Tier.L2, "p", 1.0, 2.0, lookup_hit_tokens=7),
        ],
    )

    assert shown(ledger, metrics.STORED_BLOCKS) == {("l0", "e"): 3, ("l1", "s"): 6}
    assert shown(ledger, metrics.EVICTED_BLOCKS) == {
        ("l0", "e", "capacity"): 1,
        ("l0", "e", "clear"): 2,
        ("l1", "s", "unknown"): 5,
    }
    assert shown(ledger, metrics.FAILED_BLOCKS) == {("l1", "s"): 4}
    assert shown(ledger, metrics.LOOKUP_TOKENS) == {
        ("l1", "s", "hit"): 65,
        ("l1", "s", "miss"): 33,
        ("l2", "p", "hit"): 7,
    }


def test_the_engines_own_tokens_stand_beside_the_records(ledger):
    """The two sums are kept apart, to be compared."""
    ledger.post(SOURCE, [EngineTokens(ENGINE, "m", 1.0, 2.0, TokenSplit(5, computed=5))] * 2)

    assert shown(ledger, metrics.ENGINE_TOKENS)[("computed",)] == 10
    assert shown(ledger, metrics.REQUEST_TOKENS) == {}


def test_a_reading_replaces_the_one_before_it_and_leaves_with_its_source(ledger):
    """A gauge is the latest reading; what it does not say, and what nobody answers for, is absent."""
    ledger.post(OTHER, [TierSample(Tier.L1, "s", 1.0, capacity_bytes=100, used_bytes=10, used_blocks=1)])
    ledger.post(OTHER, [TierSample(Tier.L1, "s", 2.0, capacity_bytes=100, used_bytes=30)])
    ledger.post(SOURCE, [TierSample(Tier.L0, "e", 2.0, capacity_blocks=63, used_blocks=62)])

    assert shown(ledger, metrics.CAPACITY_BYTES) == {("l1", "s"): 100}
    assert shown(ledger, metrics.USED_BYTES) == {("l1", "s"): 30}
    assert shown(ledger, metrics.RESIDENT_BLOCKS) == {("l0", "e"): 62}

    ledger.forget_readings(OTHER)

    assert shown(ledger, metrics.USED_BYTES) == {}
    assert shown(ledger, metrics.CAPACITY_BLOCKS) == {("l0", "e"): 63}


def test_a_reading_of_blocks_says_how_full_the_tier_is_and_of_what(ledger):
    """UD-29: every copy fills a block; what requests pin is another number, and never the fill."""
    reading = TierSample(
        Tier.L0, "e", 2.0, capacity_blocks=100, used_blocks=60, pinned_blocks=100,
        duplicate_blocks=6, orphan_blocks=3,
    )  # fmt: skip

    ledger.post(SOURCE, [reading])

    found = {metric: shown(ledger, metric) for metric in block_metrics.BLOCKS.metrics[:4]}
    assert found == {
        block_metrics.FILL: {("l0", "e"): 0.66},
        block_metrics.PINNED_BLOCKS: {("l0", "e"): 100},
        block_metrics.DUPLICATE_BLOCKS: {("l0", "e"): 6},
        block_metrics.ORPHAN_BLOCKS: {("l0", "e"): 3},
    }


def test_what_two_adapters_hold_stands_apart_and_adds_up(ledger):
    """UD-24: 40 GiB through one adapter of L2 and 60 GiB through another are 100 GiB of the pool."""
    stored = [
        TierTransfer(Tier.L2, "pool", TransferAction.STORE, 2.0, 1.0, adapter, 1, 0, size * GIB)
        for adapter, size in (("fs", 40), ("fs_native", 60))
    ]

    ledger.post(OTHER, stored)

    moved = shown(ledger, TRANSFERRED_BYTES)
    assert moved == {
        ("l2", "pool", "fs", "store"): 40 * GIB,
        ("l2", "pool", "fs_native", "store"): 60 * GIB,
    }
    assert sum(moved.values()) == 100 * GIB


def test_blocks_wanted_again_are_counted_by_tier_with_their_gap(ledger):
    """Two blocks after 30 s, from L0; tokens of a request that asks no cache stand apart."""
    chain = {"block_hashes": (1, 2)}
    ledger.post(
        SOURCE,
        [
            record(TokenSplit(40, computed=40), **chain, admitted_unix_seconds=10.0),
            record(TokenSplit(40, l0=32, computed=8), **chain, admitted_unix_seconds=40.0),
            record(TokenSplit(40, computed=40), **chain, admitted_unix_seconds=50.0, asks_cache=False),
        ],
    )

    gaps = shown(ledger, block_metrics.REUSE_GAP)

    assert {labels: (sum(value.counts), value.sum) for labels, value in gaps.items()} == {("l0",): (2, 60.0)}
    assert shown(ledger, block_metrics.UNASKED_TOKENS) == {(): 40}


def test_coverage_is_published_and_adds_to_no_sum(ledger, feed):
    """The sources show it themselves."""
    ledger.post(SOURCE, [SourceCoverage(SOURCE, 0, 1.0, 2.0, received=1, missing=0)])

    assert len(feed.batches) == 1
    assert [sample.metric for sample in ledger.samples()] == [metrics.FEED_BATCHES]


def test_what_could_not_be_published_is_not_counted(ledger, feed):
    """Otherwise /metrics would know of tokens that no store can ever have."""
    feed.refuses = True

    with pytest.raises(BadInput):
        ledger.post(SOURCE, [record(TokenSplit(1, computed=1))])

    assert shown(ledger, metrics.REQUEST_TOKENS) == {}
    assert shown(ledger, metrics.FEED_BATCHES) == {("exporter",): 0}


def test_many_entries_become_several_batches_in_order(ledger, feed, monkeypatch):
    """A replay of an engine's whole past does not make one giant batch; nothing at all makes none."""
    monkeypatch.setattr(ledger_module, "MOST_ENTRIES", 3)
    entries = [BlockEvent(Tier.L0, "e", BlockAction.STORED, (n,), 1.0) for n in range(7)]

    ledger.post(SOURCE, entries)
    ledger.post(SOURCE, [])

    assert [len(batch) for batch in feed.batches] == [3, 3, 1]
    assert [entry for batch in feed.batches for entry in batch] == entries


def test_a_scrape_is_the_sum_of_the_batches_it_names(feed):
    """With writers on several threads, a page of n batches shows the first n of the feed, always."""
    ledger = Ledger("exporter", feed)
    tokens = TokenSplit(2, l0=1, computed=1)

    def write():
        for _ in range(200):
            ledger.post(SOURCE, [record(tokens), record(tokens)])

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    seen = [(0, 0)]
    while seen[-1][1] < 1200:
        samples = list(ledger.samples())
        l0 = sum(s.value for s in samples if s.metric is metrics.REQUEST_TOKENS and "l0" in s.labels)
        seen.append((samples[-1].value, l0))
    for writer in writers:
        writer.join()

    for batches, l0 in seen:
        assert l0 == sum(entry.tokens.l0 for batch in feed.batches[:batches] for entry in batch)


@pytest.mark.parametrize(("sampled", "kept"), [(True, ["ab" * 16]), (False, []), (None, [])])
def test_a_request_with_a_trace_is_an_exemplar_of_its_ttft(ledger, sampled, kept):
    """UD-56: only where someone keeps the trace; an exemplar that leads nowhere is none."""
    trace = None if sampled is None else TraceContext("ab" * 16, "cd" * 8, sampled=sampled)
    ledger.post(SOURCE, [record(TokenSplit(10, computed=10), ttft_seconds=0.5, trace=trace)])

    (sample,) = [one for one in ledger.samples() if one.metric is metrics.TIME_TO_FIRST_TOKEN]
    found = [one for one in sample.value.exemplars if one is not None]

    assert [one.trace_id for one in found] == kept
    assert all((one.value, one.at_unix_seconds) == (0.5, 1.5) for one in found)
