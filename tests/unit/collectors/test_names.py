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
        "block_hashes": (block + 1, block, block + 2, block + 3)[: 40 // fields.get("block_tokens", 16)],
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


def test_engines_with_different_seeds_are_told_by_what_their_servers_call_the_same(watcher, caplog):
    """UD-41: xxhash or a hash without a seed in L0 differs, blake3 below does not."""
    for prompt in range(3):
        feed(watcher, "a", record("a", prompt, chunk=prompt, block=100 + 10 * prompt))
        feed(watcher, "b", record("b", prompt, chunk=prompt, block=500 + 10 * prompt))

    assert told(watcher) == {
        ("vllm_hook:ns/chat/pod-a/0", "engine_hash_seed_mismatch"),
        ("vllm_hook:ns/chat/pod-b/0", "engine_hash_seed_mismatch"),
    }
    assert "ns/chat/pod-b/0 names the same prompts otherwise than ns/chat/pod-a/0 (3 prompts)" in caplog.text


def test_replicas_that_agree_are_none(watcher):
    """UD-41: sha256 and blake3 need no seed."""
    for prompt in range(5):
        for node in "ab":
            feed(watcher, node, record(node, prompt, chunk=prompt, block=10 * prompt))

    assert told(watcher) == set()


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        pytest.param({"adapter": "x"}, {}, id="a LoRA adapter on one of them"),
        pytest.param({"adapter": "x"}, {"adapter": "y"}, id="another LoRA adapter on each"),
        pytest.param({"model": "base"}, {"model": "tuned"}, id="other models behind one endpoint"),
        pytest.param({"salt_hash": 7}, {"salt_hash": 8}, id="another salt on each"),
        pytest.param({"salt_hash": 7}, {}, id="a salt on one of them"),
        pytest.param({}, {"block_tokens": 8}, id="blocks of another size"),
    ],
)
def test_what_is_in_an_engines_names_beside_tokens_is_no_other_seed(watcher, caplog, of_a, of_b):
    """UD-41: one server's names, so the same tokens; what differs by right makes nobody a stranger."""
    for prompt in range(5):
        same = {"lookup": CacheLookup("cache", 2.0, 0, 0, first_chunk_hash=prompt)}
        feed(watcher, "a", record("a", prompt, chunk=0, block=100 + 10 * prompt, **same | of_a))
        feed(watcher, "b", record("b", prompt, chunk=0, block=500 + 10 * prompt, **same | of_b))

    assert told(watcher) == set()
    assert not caplog.text


def test_servers_of_other_models_or_chunk_sizes_are_not_compared(watcher):
    """Two models with equal tokens have equal block names, and need have no chunk name in common."""
    for prompt in range(5):
        feed(watcher, "a", record("a", prompt, chunk=prompt, block=10 * prompt, model="base"))
        feed(watcher, "b", record("b", prompt, chunk=90 + prompt, block=10 * prompt, model="tuned"))
        halves = {"chunk_tokens": 16, "block_hashes": (10 * prompt, 10 * prompt + 1)}
        feed(watcher, "c", record("c", prompt, chunk=70 + prompt, block=0, model="base", **halves))

    assert told(watcher) == set()


def test_tokens_that_one_engine_has_two_names_for_judge_nobody(watcher):
    """Images are in an engine's names and not in the server's: the same first chunk, every time another."""
    for prompt in range(20):
        for node, first in (("a", 0), ("b", 500)):
            feed(watcher, node, record(node, prompt, chunk=prompt % 4, block=first + 10 * prompt))

    assert {kind for _, kind in told(watcher)} == set()


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
