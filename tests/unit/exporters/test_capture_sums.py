"""Sums that hold in the recordings of real engines, whichever of their files is asked."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from exporters.admissions import Admissions, EngineFacts
from exporters.exposition import parse_exposition
from exporters.vllm.hook import decode_records
from tests.captured import ENGINE, hook_payloads
from tests.hook_records import hash_secret
from tierscope.domain.requests import NO_TOKENS, TokenSplit

BLOCK_TOKENS = 32
CHUNK_TOKENS = 64
SKIPPING_TOKENS = 252
"""Of the one prompt whose request asks no cache."""

RUNS = {
    "a_alone": (TokenSplit(15_976, l0=3_488, computed=12_488), 40, 4),
    "b_offloading": (TokenSplit(16_588, l0=3_488, l1=256, l2=1_312, computed=11_532), 41, 5),
    "c_lmcache_mp": (TokenSplit(15_976, l0=3_488, external=1_472, computed=11_016), 40, 6),
    "m_multiconnector": (TokenSplit(15_976, l0=3_488, external=1_568, computed=10_920), 40, 5),
    "d_scheduler_cls": (TokenSplit(15_976, l0=3_488, computed=12_488), 40, 4),
}
"""Tokens of the first admissions, how many of them, and preemptions, for each way of hooking an engine."""


class Run:
    """What one hook told of an engine, what the engine counted meanwhile, and what it answered."""

    def __init__(self, folder):
        admissions = Admissions(ENGINE, EngineFacts(), hash_secret)
        self.rows = []
        for payload in hook_payloads(folder):
            outcome = admissions.apply(decode_records(payload, where="capture").records)
            assert not outcome.oddities
            self.rows += outcome.records
        self.served = [row for row in self.rows if row.counts]
        self.answers = [
            answer
            for answer in map(json.loads, (folder / "ledger.jsonl").read_text("utf-8").splitlines())
            if answer.get("usage")
        ]
        self._pages = [
            parse_exposition((folder / f"metrics_{when}.txt").read_text("utf-8"), where=when)
            for when in ("before", "after")
        ]

    def counted(self, name, **labels):
        """How much a counter grew."""
        before, after = (
            sum(
                value
                for series, value in page.named(f"vllm:{name}_total").items()
                if labels.items() <= series.labels.items()
            )
            for page in self._pages
        )
        return after - before


@pytest.fixture(scope="module", params=RUNS)
def recorded(request, captures):
    """Each run with its sums."""
    return Run(captures / "observer" / request.param), *RUNS[request.param], request.param


@pytest.fixture(scope="module")
def observed(recorded):
    return recorded[0]


def test_what_hooks_tell_is_what_engines_count(recorded):
    """Prompts, L0, what came through a connector, what was computed; admissions again are preemptions."""
    run, tokens, firsts, preemptions, name = recorded

    assert sum((row.tokens for row in run.served), NO_TOKENS) == tokens
    assert tokens.prompt == run.counted("prompt_tokens")
    assert tokens.l0 == run.counted("prefix_cache_hits")
    assert tokens.l0 == run.counted("prompt_tokens_by_source", source="local_cache_hit")
    loaded = tokens.l1 + tokens.l2 + tokens.external
    assert loaded == run.counted("external_prefix_cache_hits")
    assert loaded == run.counted("prompt_tokens_by_source", source="external_kv_transfer")
    assert tokens.computed == run.counted("prompt_tokens_by_source", source="local_compute")
    assert len(run.served) == firsts
    assert run.counted("num_preemptions") == preemptions
    again = len(run.rows) - firsts
    assert again == (0 if name == "d_scheduler_cls" else preemptions)


def test_lookups_leave_out_who_asks_no_cache(recorded):
    """L0 is asked for all prompts but that one; a connector, where there is one, for what L0 left over."""
    run, tokens, *_, name = recorded

    asked = sum(row.tokens.prompt for row in run.served if row.asks_cache)
    if name != "d_scheduler_cls":  # which tells of no request that it skips
        assert asked == tokens.prompt - SKIPPING_TOKENS
    assert run.counted("prefix_cache_queries") == tokens.prompt - SKIPPING_TOKENS
    left_over = 0 if name == "d_scheduler_cls" else tokens.prompt - tokens.l0
    assert run.counted("external_prefix_cache_queries") == left_over


def test_clients_are_told_what_their_rows_have_cached(recorded):
    """Summed, and each for itself; of two completions of one prompt the answer tells one's."""
    run, tokens, *_ = recorded
    cached = {}
    for row in run.served:
        name = row.request_id.split("-", 1)[1]
        cached.setdefault(name, []).append(row.tokens.prompt - row.tokens.computed)

    told = {
        answer["x_request_id"]: answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        for answer in run.answers
    }
    assert sum(told.values()) == tokens.prompt - tokens.computed
    assert len(told) == 38
    for name, tokens_cached in told.items():
        (rows,) = (rows for known, rows in cached.items() if known.removesuffix("-0") == name)
        assert tokens_cached in rows


def test_blocks_that_l0_had_were_in_an_earlier_prompt(observed):
    """109 of them; a chain has a hash for each whole block of its prompt."""
    seen, hits = set(), 0
    for row in sorted(observed.served, key=lambda row: row.admitted_unix_seconds):
        assert len(row.block_hashes) == row.tokens.prompt // BLOCK_TOKENS
        had = row.block_hashes[: row.tokens.l0 // BLOCK_TOKENS]
        assert seen.issuperset(had)
        hits += len(had)
        seen.update(row.block_hashes)

    assert hits == 109


class Server:
    """Events and pages of an LMCache server, and what its clients saw."""

    def __init__(self, folder, page):
        self.truth = json.loads((folder / "truth.json").read_text("utf-8"))
        self.status = json.loads((folder / "status.json").read_text("utf-8"))
        self._page = parse_exposition((folder / page).read_text("utf-8"), where=page)
        self._events = [
            json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()
        ]

    def counted(self, name):
        return self._page.total(f"lmcache_mp_{name}")

    def told(self, event_type, field):
        """A number, or the length of a list, over all events of a type."""
        values = [e["metadata"][field] for e in self._events if e["event_type"] == event_type]
        return sum(value if isinstance(value, int) else len(value) for value in values)

    @property
    def in_l1(self):
        (manager,) = self.status["storage_manager"]["l1_managers"].values()
        return manager["total_object_count"]


@pytest.fixture(scope="module")
def pull(captures):
    return Server(captures / "lmcache" / "mp_pull", "metrics.txt")


@pytest.fixture(scope="module")
def under_vllm(captures):
    return Server(captures / "lmcache" / "mp_vllm_cpu", "lmcache_metrics.txt")


def test_reads_of_l1_are_those_of_requests_and_of_the_copies_to_l2(pull, under_vllm):
    """94 = 30 + 64 and 66 = 32 + 34: LMCache's own counter of them is no counter of hits."""
    for server, of_requests, copied in ((pull, 30, 64), (under_vllm, 32, 34)):
        assert server.told("sm.read.prefetched_finished", "succeeded_keys") == of_requests
        assert server.told("l2.store.submitted", "key_count") == copied
        assert server.counted("l1_read_chunks_total") == of_requests + copied
    assert pull.counted("num_chunks_loaded_total") == pull.told("mp.retrieve.end", "retrieved_count") == 30


def test_writes_to_l1_less_what_left_is_what_is_there(pull, under_vllm):
    """78 = 64 + 14, of which 55 left and 23 are there; 54 = 34 + 20, of which 39 left and 15 are there."""
    for server, stored, loaded, left, chunk_bytes in (
        (pull, 64, 14, 55, 131_072),
        (under_vllm, 34, 20, 39, 65_536),
    ):
        assert server.counted("l1_write_chunks_total") == stored + loaded
        assert server.counted("l2_prefetch_load_completed_chunks_total") == loaded
        assert server.counted("l1_evicted_chunks_total") == left
        assert server.in_l1 == stored + loaded - left
        assert server.counted("l1_memory_usage_bytes") == server.in_l1 * chunk_bytes


def test_clients_are_answered_that_more_is_stored_than_is(pull):
    """7,680 tokens are 120 chunks: 64 were kept, 56 had no room."""
    answered = sum(request["stored_tokens"] or 0 for request in pull.truth["requests"])

    assert answered == 7_680 == 120 * CHUNK_TOKENS
    assert pull.told("mp.store.end", "stored_count") == 64
    assert pull.counted("l1_allocation_failure_chunks_total") == 56 == 120 - 64


def test_l2_counts_as_done_what_was_there_already(pull):
    """64 chunks submitted and completed, 63 written; the gauge never learns that one was unlinked."""
    assert pull.counted("l2_store_submitted_objects_chunks_total") == 64
    assert pull.counted("l2_store_completed_objects_chunks_total") == 64
    assert pull.told("l2.keys.stored", "keys") == 63
    assert pull.counted("l2_usage_bytes") == 8_257_536 == 63 * 131_072


def test_inside_an_engine_every_stored_chunk_is_written_and_told_once(captures):
    """26 lookups of 7,044 tokens found 2,048; 74 chunks stored are 74 writes and 74 events of one chunk."""
    folder = captures / "lmcache" / "inproc_fs"
    page = parse_exposition((folder / "metrics.txt").read_text("utf-8"), where="page")
    truth = json.loads((folder / "truth.json").read_text("utf-8"))["requests"]
    events = [json.loads(line) for line in (folder / "kv_events.jsonl").read_text("utf-8").splitlines()]

    def counted(name):
        return page.total(f"lmcache:{name}_total")

    assert (counted("num_lookup_requests"), counted("num_lookup_tokens")) == (26, 7_044)
    assert counted("num_lookup_hits") == counted("num_hit_tokens") == 2_048
    assert sum(request["tokens"] for request in truth) == 7_044
    assert Counter(
        location for request in truth for location, hit in request["hit_chunks_by_location"].items() if hit
    ) == {"LocalCPUBackend": 5, "RemoteBackend": 3}
    assert counted("num_remote_write_requests") == 74
    assert len({event["block_hashes"][0] for event in events}) == len(events) == 74
