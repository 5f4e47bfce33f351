"""LMCache's pages against what its clients saw, and through restarts and skewed readings."""

from __future__ import annotations

import json

import pytest

from exporters.exposition import parse_exposition
from exporters.lmcache.parse import ServerActivity, parse_counters, parse_status
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierActivity, TierSample
from tierscope.domain.tiers import Tier


def counters_of(path):
    return parse_counters(parse_exposition(path.read_text("utf-8"), where=path.name))


@pytest.fixture
def activity():
    return ServerActivity(server="node-1", pool="curvine")


def since_zero(activity, counters):
    activity.advance({}, None, 10.0)
    return activity.advance(counters, None, 15.0)


def test_the_captured_servers_counters_become_what_its_tiers_did(captures, activity):
    """37 lookups of 9,600 tokens: 1,024 in L1, 896 more from L2; 64 chunks stored, 56 without room."""
    (l1, l2), restarted = since_zero(activity, counters_of(captures / "lmcache" / "mp_pull" / "metrics.txt"))

    assert l1 == TierActivity(
        tier=Tier.L1,
        holder="node-1",
        since_unix_seconds=10.0,
        at_unix_seconds=15.0,
        lookup_hit_tokens=1_024,
        lookup_miss_tokens=8_576,
        stored_blocks=64,
        evicted_blocks=55,
        failed_blocks=56,
    )
    assert l2 == TierActivity(
        tier=Tier.L2,
        holder="curvine",
        since_unix_seconds=10.0,
        at_unix_seconds=15.0,
        lookup_hit_tokens=896,
        lookup_miss_tokens=7_680,
        stored_blocks=64,
        evicted_blocks=None,
        failed_blocks=None,
    )
    assert not restarted


def test_the_clients_saw_the_same(captures, activity):
    """What the captured clients were told adds up to the hits of both tiers."""
    folder = captures / "lmcache" / "mp_pull"
    truth = json.loads((folder / "truth.json").read_text("utf-8"))

    (l1, l2), _ = since_zero(activity, counters_of(folder / "metrics.txt"))

    hits = sum(request["hit_chunks"] for request in truth["requests"]) * truth["chunk_tokens"]
    asked = sum(request["full_tokens"] for request in truth["requests"])
    assert l1.lookup_hit_tokens + l2.lookup_hit_tokens == hits == 1_920
    assert l1.lookup_hit_tokens + l1.lookup_miss_tokens == asked == 9_600


def test_under_an_engine_the_lookups_overlap_l0(captures, activity):
    """2,048 tokens were found although the engine used 1,024: lookups are what a tier could serve."""
    (l1, l2), _ = since_zero(
        activity, counters_of(captures / "lmcache" / "mp_vllm_cpu" / "lmcache_metrics.txt")
    )

    assert (l1.lookup_hit_tokens, l2.lookup_hit_tokens) == (768, 1_280)
    assert (l1.stored_blocks, l1.evicted_blocks, l1.failed_blocks) == (34, 39, 0)


def test_status_is_the_size_of_l1(captures):
    """4 MiB of which 23 chunks of 128 KiB are used; the chunk has 64 tokens."""
    status = parse_status((captures / "lmcache" / "mp_pull" / "status.json").read_bytes(), where="test")

    assert status.sample("node-1", 15.0) == TierSample(
        tier=Tier.L1,
        holder="node-1",
        at_unix_seconds=15.0,
        capacity_bytes=4_194_304,
        used_bytes=3_014_656,
        used_blocks=23,
        block_tokens=64,
    )
    assert status.incarnation == 1_795_956_620_088_522_666


def test_several_managers_are_one_l1():
    """A server may part its memory by tag; it is one tier all the same."""
    manager = {"memory_used_bytes": 10, "memory_total_bytes": 100, "total_object_count": 1}
    body = json.dumps({"storage_manager": {"l1_managers": {"a": manager, "b": manager}}}).encode()

    status = parse_status(body, where="test")

    assert (status.capacity_bytes, status.used_bytes, status.chunks) == (200, 20, 2)
    assert status.chunk_tokens is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"storage_manager": {"l1_managers": 5}}'])
def test_a_status_that_is_none_is_refused_by_name(body):
    """The address stands in the message."""
    with pytest.raises(SourceUnreadable) as caught:
        parse_status(body, where="http://node/status")

    assert caught.value.where == "http://node/status"


def test_the_first_reading_has_no_activity(activity):
    """What a server did before we looked is not ours."""
    assert activity.advance({"requested": 5}, None, 10.0) == ((), False)


def test_loads_told_before_their_writes_do_not_make_stores_negative(activity):
    """A page is not one instant: what a reading tells too early is owed to the next."""
    activity.advance({"l1_written": 100, "l2_loaded": 50}, None, 10.0)

    (first, _), _ = activity.advance({"l1_written": 102, "l2_loaded": 60}, None, 15.0)
    (second, _), _ = activity.advance({"l1_written": 115, "l2_loaded": 60}, None, 20.0)

    assert (first.stored_blocks, second.stored_blocks) == (0, 5)


def test_a_new_incarnation_counts_from_zero(activity):
    """A restarted server may have overtaken its old counts before the next reading."""
    activity.advance({"requested": 100, "hit_l1": 10}, 1, 10.0)

    (l1, _), restarted = activity.advance({"requested": 120, "hit_l1": 20}, 2, 15.0)

    assert restarted
    assert (l1.lookup_hit_tokens, l1.lookup_miss_tokens) == (20, 100)


def test_counters_that_are_not_there_are_absent(activity):
    """A page without a family says nothing about it."""
    (l1, l2), _ = since_zero(activity, {"requested": 10, "hit_l1": 4})

    assert l1.stored_blocks is None
    assert l1.failed_blocks is None
    assert l2.lookup_hit_tokens is None


def test_models_and_salts_add_up():
    """The same counter comes once a model and salt."""
    page = parse_exposition(
        'lmcache_mp_lookup_hit_l1_tokens_total{cache_salt="",model_name="a"} 3\n'
        'lmcache_mp_lookup_hit_l1_tokens_total{cache_salt="x",model_name="b"} 4\n',
        where="test",
    )

    assert parse_counters(page) == {"hit_l1": 7}
