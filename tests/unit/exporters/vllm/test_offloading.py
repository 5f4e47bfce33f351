"""vLLM's own offloading as L1 and L2, against a recorded engine with a host tier and a directory."""

from __future__ import annotations

import re

import pytest

from exporters.engines import Engines
from exporters.exposition import parse_exposition
from exporters.vllm.offloading import HOST, OffloadCounters, OffloadReading, read_offloading
from exporters.vllm.page_source import EnginePageSource
from tests.captured import ENGINE
from tierscope.domain.events import EngineTokens, TierActivity, TierSample, TierTransfer, TransferAction
from tierscope.domain.requests import NO_TOKENS
from tierscope.domain.tiers import Tier

KEY = ("tiny-llama", "0")
GIB = 1024**3


@pytest.fixture
def run(captures):
    return captures / "vllm" / "run-b-offload-tiers"


class Page:
    """Stands in for a fetcher."""

    def __init__(self, *pages):
        self.pages = list(pages)

    def get(self, _):
        return self.pages.pop(0)


def entries(*pages):
    """What one engine's page leads to, read again and again."""
    source = EnginePageSource("http://engine/metrics", [ENGINE], Engines(), began_unix_seconds=4e9)
    fetcher = Page(*pages)
    return [entry for at in range(len(pages)) for entry in source.read(fetcher, float(at)).entries]


def around(run):
    return [(run / f"metrics_{when}.txt").read_bytes() for when in ("before", "after")]


def test_hits_of_the_host_and_of_the_directory_are_l1_and_l2(run):
    """256 and 3,776 tokens, as the engine counts them by source, and what neither had."""
    found = entries(*around(run))

    tokens = sum((entry.tokens for entry in found if isinstance(entry, EngineTokens)), NO_TOKENS)
    hits = {
        entry.tier: entry.lookup_hit_tokens
        for entry in found
        if isinstance(entry, TierActivity) and entry.tier is not Tier.L0
    }
    assert hits == {Tier.L1: 256, Tier.L2: 3776} == {Tier.L1: tokens.l1, Tier.L2: tokens.l2}
    misses = {entry.tier: entry.lookup_miss_tokens for entry in found if isinstance(entry, TierActivity)}
    assert (misses[Tier.L1], misses[Tier.L2]) == ((355 - 8) * 32, (148 - 118) * 32)


def test_bytes_that_were_copied_are_told_by_tier_and_way(run):
    """Of the 2,064,384 bytes loaded into the GPU 1,933,312 had come up from the directory before."""
    moved = {
        (entry.tier, entry.action, entry.adapter): entry.size_bytes
        for entry in entries(*around(run))
        if isinstance(entry, TierTransfer)
    }

    assert moved == {
        (Tier.L1, TransferAction.LOAD, None): 2_064_384,
        (Tier.L1, TransferAction.STORE, None): 3_751_936,
        (Tier.L2, TransferAction.LOAD, "fs"): 1_933_312,
        (Tier.L2, TransferAction.STORE, "fs"): 3_751_936,
    }


def test_a_release_that_counts_both_ways_in_one_family_is_read_too(run):
    """Up to 0.23 the direction is a label."""
    old = re.sub(rb"(?m)^vllm:kv_offload_(load|store)_bytes_total.*\n", b"", around(run)[1])

    counters = read_offloading(parse_exposition(old, where="page"))[KEY].counters

    assert (counters["load_bytes", HOST], counters["store_bytes", HOST]) == (2_064_384, 3_751_936)


def test_what_transfers_pin_is_never_how_full_the_host_is(run):
    """UD-29: a usage of 1.0 pins all of it; how full it is, is what its events say, or absent."""
    page = around(run)[1].replace(b'kv_offloading_size="None"', b'kv_offloading_size="2.0"')
    page = re.sub(rb"(kv_offload_cpu_cache_usage_perc\{[^}]*\}) .*", rb"\1 1.0", page)

    sample = next(entry for entry in entries(page) if isinstance(entry, TierSample) and entry.tier is Tier.L1)

    assert (sample.capacity_bytes, sample.pinned_bytes) == (2 * GIB, 2 * GIB)
    assert (sample.used_bytes, sample.used_blocks) == (None, None)


def test_an_engine_that_offloads_nothing_says_nothing_of_l1(captures):
    """No series of it, no entry."""
    page = (captures / "vllm" / "run-a-prefix-cache" / "metrics_after.txt").read_bytes()

    assert read_offloading(parse_exposition(page, where="page")) == {}
    assert not [entry for entry in entries(page, page) if isinstance(entry, TierTransfer)]


def test_stores_that_were_given_up_are_failures_of_their_tier():
    """A directory that is too slow has blocks dropped for it."""
    counters = OffloadCounters("engine", from_zero=True)

    (failed,) = counters.advance(OffloadReading({("dropped_blocks", "fs"): 3}), 32, 0.0, 1.0)

    assert (failed.tier, failed.adapter, failed.failed_blocks) == (Tier.L2, "fs", 3)
    assert failed.reason == "backpressure"


def test_another_engines_memory_is_neither_tier():
    """What comes from a peer stays external."""
    page = 'vllm:kv_offload_tiering_chunk_hits_total{engine="0",model_name="m",tier="1:p2p"} 5\n'

    assert read_offloading(parse_exposition(page, where="page")) == {}


def test_a_restarted_engine_counts_from_zero_again():
    """What it did before is kept by whoever adds up."""
    counters = OffloadCounters("engine")
    hits = [
        entry.lookup_hit_tokens
        for value in (5, 9, 2)
        for entry in counters.advance(OffloadReading({("hits", HOST): value}), 32, 0.0, 1.0)
    ]

    assert hits == [4 * 32, 2 * 32]
