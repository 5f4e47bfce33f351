"""Replicas on different nodes that name the same prompts differently are told, and no others."""

from __future__ import annotations

import pytest

from collectors.complaints import Complaints
from collectors.names import NameWatcher
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import CacheLookup, RequestRecord, RequestStatus, TokenSplit
from tierscope.registry.metrics import FINDING


@pytest.fixture
def watcher():
    return NameWatcher(Complaints(lambda: 0.0))


def record(node, prompt, *, chunk, block, endpoint="chat", **fields):
    """A request of 40 tokens: its first chunk of 32 is `chunk` to the server, its second block `block`."""
    given = {
        "engine": EngineId("ns", endpoint, f"pod-{node}", 0),
        "model": "m",
        "request_id": f"{node}-{prompt}",
        "attempt": 0,
        "status": RequestStatus.SERVED,
        "tokens": TokenSplit(40, computed=40),
        "block_tokens": 16,
        "block_hashes": (block + 1, block),
        "arrived_unix_seconds": 1.0,
        "admitted_unix_seconds": 2.0,
        "chunk_tokens": 32,
        "lookup": CacheLookup(f"cache-{node}", 2.0, 0, 0, first_chunk_hash=chunk),
    }
    return RequestRecord(**given | fields)


def feed(watcher, node, *records):
    """Each node's exporter has a feed of its own."""
    watcher.take([FeedBatch(FeedPosition(f"node-{node}", 1, 0), 3.0, tuple(records))])


def told(watcher):
    return {sample.labels[:2] for sample in watcher.samples() if sample.metric is FINDING}


def test_servers_of_two_nodes_with_different_seeds_are_told_by_name(watcher, caplog):
    """UD-41: the same prompts on both, one name in common on none of them."""
    for prompt in range(3):
        feed(watcher, "a", record("a", prompt, chunk=100 + prompt, block=10 * prompt))
        feed(watcher, "b", record("b", prompt, chunk=200 + prompt, block=10 * prompt))

    assert told(watcher) == {
        ("lmcache_records:cache-a", "hash_seed_mismatch"),
        ("lmcache_records:cache-b", "hash_seed_mismatch"),
    }
    assert "cache-b names the same prompts otherwise than cache-a" in caplog.text


def test_engines_with_different_seeds_are_told_by_what_their_servers_call_the_same(watcher):
    """UD-41: xxhash or a hash without a seed in L0 differs, blake3 below does not."""
    for prompt in range(3):
        feed(watcher, "a", record("a", prompt, chunk=prompt, block=100 + 10 * prompt))
        feed(watcher, "b", record("b", prompt, chunk=prompt, block=500 + 10 * prompt))

    assert told(watcher) == {
        ("vllm_hook:ns/chat/pod-a/0", "engine_hash_seed_mismatch"),
        ("vllm_hook:ns/chat/pod-b/0", "engine_hash_seed_mismatch"),
    }


def test_replicas_that_agree_are_none(watcher):
    """UD-41: sha256 and blake3 need no seed."""
    for prompt in range(5):
        for node in "ab":
            feed(watcher, node, record(node, prompt, chunk=prompt, block=10 * prompt))

    assert told(watcher) == set()


def test_what_cannot_be_compared_tells_nothing(watcher):
    """Other prompts, other endpoints, salted prompts, chunks of no whole blocks, records without a lookup."""
    for prompt in range(5):
        feed(watcher, "a", record("a", prompt, chunk=prompt, block=10 * prompt))
        feed(watcher, "b", record("b", prompt, chunk=90 + prompt, block=900 + 10 * prompt))
        feed(watcher, "c", record("c", prompt, chunk=70 + prompt, block=10 * prompt, endpoint="rag"))
        feed(watcher, "d", record("d", prompt, chunk=prompt, block=700 + 10 * prompt, salt_hash=7))
        feed(watcher, "e", record("e", prompt, chunk=60, block=10 * prompt, chunk_tokens=24))
        feed(watcher, "f", record("f", prompt, chunk=50, block=10 * prompt, lookup=None))

    assert told(watcher) == set()
