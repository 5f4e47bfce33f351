"""Real vLLM, a real LMCache server, the probe in both, our exporter and store: one split of every prompt."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.engines import hook
from tests.engines.lmcache_server import CHUNK_TOKENS
from tierscope.domain.requests import NO_TOKENS
from tierscope.registry import metrics
from tierscope.registry.transfer_metrics import TRANSFERRED_BLOCKS


@pytest.fixture(scope="module")
def run(all_tiers):
    """The run that every file here looks at."""
    return all_tiers


def test_the_workload_used_all_three_tiers(run):
    """Hits in each, evictions from L0 and L1, preemptions."""
    assert len(run.sent) >= 200
    assert sum(split.local for split in run.counted) > 0
    assert sum(split.l1 for split in run.counted) > 0
    assert sum(split.l2 for split in run.counted) > 0
    assert {record["reason"] for record in run.of("l1_evicted")} >= {"capacity", "after_read"}
    assert run.engine_page.total("vllm:num_preemptions_total") > 0


def test_one_prompt_is_served_by_each_tier_in_turn(run):
    """Computed at first, then four chunks from L1, then from L2 those before the hole."""
    splits = {
        split.rid.split("-")[2]: (split.local, split.l1, split.l2)
        for split in run.counted
        if "cmpl-r" in split.rid
    }

    assert splits["there"] == (0, 0, 0)
    assert splits["back"] == (0, 4 * CHUNK_TOKENS, 0)
    assert splits["holed"] == (0, 0, 2 * CHUNK_TOKENS)


def test_every_prompt_is_split_as_the_engine_counted(run):
    """Prompt = L0 + L1 + L2 + computed, against the engine's own counters: none off."""
    by_source = "vllm:prompt_tokens_by_source_total"
    external = sum(split.l1 + split.l2 for split in run.counted)
    computed = sum(split.prompt - split.local - split.external for split in run.counted)

    assert sum(split.prompt for split in run.counted) == run.engine_page.total("vllm:prompt_tokens_total")
    assert sum(split.local for split in run.counted) == run.engine_page.total(
        by_source, source="local_cache_hit"
    )
    assert external == run.engine_page.total(by_source, source="external_kv_transfer")
    assert computed == run.engine_page.total(by_source, source="local_compute")


def test_every_admission_that_loaded_has_its_lookup(run):
    """The engine loads up to the end of what LMCache found, less the one token it must compute."""
    loading = [split for split in run.splits if split.external]

    for split in loading:
        assert split.lookup is not None
        assert split.local + split.external in (split.lookup["hit_tokens"], split.lookup["hit_tokens"] - 1)
        assert split.l2 <= split.lookup["l2_hit_tokens"]
    assert {split.attempt for split in loading} >= {0}


def test_what_is_l2s_was_loaded_from_l2_for_that_request(run):
    """The chunks that came from L2 within a lookup are those that the lookup found beyond L1."""
    loads = defaultdict(list)
    for load in run.of("load"):
        loads[load["rid"]].append(load)

    for split in (split for split in run.splits if split.l2):
        within = [
            load
            for load in loads[split.rid]
            if split.lookup["start"] <= load["start"] <= load["end"] <= split.lookup["end"]
        ]
        assert sum(load["loaded_keys"] for load in within) * CHUNK_TOKENS == split.lookup["l2_hit_tokens"]


def test_each_request_has_the_cached_tokens_its_client_was_told(run):
    """L0, L1 and L2 tokens of a request are the API's `cached_tokens`, or those of one child of n."""
    splits = defaultdict(list)
    for split in run.counted:
        splits[hook.client_id({"rid": split.rid})].append(split)
    answered = [sent for sent in run.sent if sent.cached_tokens is not None]

    for sent in answered:
        assert sent.cached_tokens in [split.local + split.l1 + split.l2 for split in splits[sent.request_id]]


def test_the_servers_counters_are_the_records_sums(run):
    """As without an engine: hits of both tiers, arrivals, departures, loads."""
    for metric, kind, name in (
        ("lookup_hit_l1_tokens", "lookup", "l1_hit_tokens"),
        ("lookup_hit_l2_tokens", "lookup", "l2_hit_tokens"),
        ("l1_write_chunks", "l1_stored", "keys"),
        ("l1_evicted_chunks", "l1_evicted", "keys"),
        ("l2_prefetch_load_completed_chunks", "load", "loaded_keys"),
        ("l2_store_completed_objects_chunks", "store", "stored_keys"),
    ):
        assert sum(record[name] for record in run.of(kind)) == run.cache_page.total(
            f"lmcache_mp_{metric}_total"
        )


def test_what_is_shown_and_stored_is_what_the_engine_counted(run):
    """0 tokens off: prompt, L0, L1 + L2 and computed; nothing is left external."""
    by_source = "vllm:prompt_tokens_by_source_total"
    split = run.shown.split(metrics.REQUEST_TOKENS)

    assert split == run.stored
    assert split == sum((row.tokens for row in run.rows if row.counts), NO_TOKENS)
    assert split.prompt == run.engine_page.total("vllm:prompt_tokens_total")
    assert split.l0 == run.engine_page.total(by_source, source="local_cache_hit")
    assert split.l1 + split.l2 == run.engine_page.total(by_source, source="external_kv_transfer")
    assert split.computed == run.engine_page.total(by_source, source="local_compute")
    assert split.external == 0
    assert run.shown.sums(metrics.UNKNOWN_INPUT) == {}


def test_every_row_has_the_split_that_the_servers_events_say(run):
    """Of each admission, the first and those after preemptions: L0, L1 and L2 tokens."""
    told = Counter(
        (hook.without_suffix(split.rid), split.attempt, split.local, split.l1, split.l2)
        for split in run.splits
    )
    rows = Counter(
        (row.request_id, row.attempt, row.tokens.l0, row.tokens.l1, row.tokens.l2) for row in run.rows
    )

    assert rows == told


def test_each_row_has_the_cached_tokens_its_client_was_told(run):
    """L0, L1 and L2 of a row are the API's `cached_tokens`, or those of one child of n."""
    cached = defaultdict(list)
    for row in run.rows:
        if row.counts:
            cached[hook.client_id({"rid": row.request_id})].append(
                row.tokens.l0 + row.tokens.l1 + row.tokens.l2
            )

    for sent in run.sent:
        if sent.cached_tokens is not None:
            assert sent.cached_tokens in cached[sent.request_id]


def test_a_row_knows_when_l2_was_read_for_it(run):
    """Start and end of each load, within the lookup that waited for it."""
    for row in run.rows:
        if row.tokens.l2:
            loads = row.lookup.loads
            assert sum(load.blocks for load in loads) * CHUNK_TOKENS >= row.tokens.l2
            for load in loads:
                assert row.lookup.started_unix_seconds <= load.started_unix_seconds
                assert load.started_unix_seconds < load.ended_unix_seconds <= row.lookup.ended_unix_seconds


def test_what_the_tiers_did_is_shown_as_the_server_counted_it(run):
    """Arrivals and departures of L1 by reason, hits of both tiers, transfers with L2."""
    shown, page = run.shown, run.cache_page
    evicted = shown.sums(metrics.EVICTED_BLOCKS, "reason", tier="l1")
    loaded = shown.sums(TRANSFERRED_BLOCKS, "action", tier="l2")

    assert sum(evicted.values()) == page.total("lmcache_mp_l1_evicted_chunks_total")
    assert evicted["capacity"] > 0
    assert evicted["after_read"] > 0
    assert shown.sums(metrics.STORED_BLOCKS, "tier")["l1"] == page.total("lmcache_mp_l1_write_chunks_total")
    for tier in ("l1", "l2"):
        hit = page.total(f"lmcache_mp_lookup_hit_{tier}_tokens_total")
        assert shown.sums(metrics.LOOKUP_TOKENS, "tier", tier=tier, result="hit") == {tier: hit}
    assert loaded["load"] == page.total("lmcache_mp_l2_prefetch_load_completed_chunks_total")
    assert loaded["store"] == page.total("lmcache_mp_l2_store_completed_objects_chunks_total")
    assert shown.sums(metrics.COMPLETENESS, "source")["lmcache_records:node"] == 1.0


def test_neither_probe_had_trouble(run):
    """No drop, no error, in either process."""
    for records in (run.engine, run.cache):
        stats = [record for record in records if record["t"] == "stats"][-1]
        assert (stats["dropped"], stats["errors"]) == (0, 0)
    assert run.of("stats")[-1]["bus_dropped"] == 0
