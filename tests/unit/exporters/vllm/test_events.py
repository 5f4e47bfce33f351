"""KV events of every release, and events that nobody knows."""

from __future__ import annotations

import json
from base64 import b64decode

import msgspec
import pytest

from exporters.vllm import events
from exporters.vllm.events import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    ChangeBatch,
    decode_events,
    tier_of_medium,
)
from tests.captured import event_payloads
from tierscope.domain.errors import BadInput
from tierscope.domain.tiers import Tier
from tierscope.domain.units import BLOCK_HASH_MASK, block_hash_of_bytes

pack = msgspec.msgpack.encode


def decode(payload):
    return decode_events(payload, where="events of pod-0")


def test_nesting_without_end_is_no_fault_of_ours():
    """A payload deeper than any stack is refused like any other that cannot be read."""
    with pytest.raises(BadInput, match="cannot be read"):
        decode(b"\x93\x00" + b"\x91" * 100_000)


def test_every_releases_encoding_reads_the_same(captures):
    """Arrays up to 0.23 and maps since, integer hashes and digests: the same three changes come out."""
    lines = (captures / "vllm" / "kv-event-encodings" / "payloads_by_version.jsonl").read_text("utf-8")
    recorded = [json.loads(line) for line in lines.splitlines()]

    assert len({line["vllm"] for line in recorded}) == 11
    for line in recorded:
        batch = decode(b64decode(line["payload_b64"]))
        stored, removed, cleared = batch.changes
        assert not batch.oddities, line["vllm"]
        assert isinstance(stored, BlocksStored)
        assert (len(stored.block_hashes), stored.block_tokens, stored.medium) == (2, 4, "GPU")
        assert removed == BlocksRemoved(stored.block_hashes[:1], "GPU", stored.group)
        assert cleared == BlocksCleared()
        if line["case"] == "bytes_hashes_all_fields":
            assert stored.block_hashes[0] == block_hash_of_bytes(bytes(range(32)))
            assert stored.parent_hash == block_hash_of_bytes(bytes(range(64, 96)))


def test_both_ways_of_reading_find_the_same(captures):
    """A recorded run is read in one step, and item by item with the same changes."""
    for run in ("run-a-prefix-cache", "run-b-offload-tiers"):
        for payload in event_payloads(captures / "vllm" / run / "kv_events.jsonl"):
            at_unix_seconds, changes, rank = events._decode_changes(payload)
            assert events._decode_one_by_one(payload, "here") == ChangeBatch(at_unix_seconds, changes, rank)


def test_token_ids_never_pass(captures):
    """No field of a decoded change can hold them, and none of their numbers is in what comes out."""
    payloads = event_payloads(captures / "vllm" / "run-a-prefix-cache" / "kv_events.jsonl")

    fields = {name for payload in payloads for c in decode(payload).changes for name in c.__struct_fields__}

    assert fields == {"medium", "group", "block_hashes", "parent_hash", "block_tokens", "kind"}


def test_a_batch_keeps_its_time_and_rank(captures):
    """The publisher's clock and rank come with the batch; a missing rank is absent."""
    payloads = event_payloads(captures / "vllm" / "run-c-data-parallel" / "kv_events_rank1.jsonl")

    assert {decode(payload).rank for payload in payloads} == {1}
    assert decode(pack([5.5, [], None])).rank is None
    assert decode(pack([5.5, [], None])).at_unix_seconds == 5.5


def test_an_event_nobody_knows_costs_only_itself():
    """Unknown kinds, unreadable fields and things that are no events are named; the rest is used."""
    batch = decode(
        pack(
            [
                1.0,
                [
                    {"type": "BlockFrozen", "block_hashes": [1]},
                    {"type": "BlockStored", "block_hashes": [2], "block_size": 16, "medium": "GPU"},
                    ["BlockRemoved", [3], "GPU", None, "a later field"],
                    {"type": "BlockRemoved", "block_hashes": "nonsense"},
                    17,
                ],
                0,
            ]
        )
    )

    assert batch.changes == (BlocksStored((2,), "GPU", 0, None, 16), BlocksRemoved((3,), "GPU", 0))
    assert [oddity.what for oddity in batch.oddities] == [
        "kind BlockFrozen",
        "unreadable BlockRemoved",
        "item without a kind",
    ]


def test_later_fields_are_ignored():
    """A newer release may add to an event without our noticing."""
    event = {"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU", "reason": {"new": True}}

    assert decode(pack([1.0, [event], 0])).changes == (BlocksRemoved((1,), "GPU", 0),)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"text", pack({"a": 1}), pack([1.0]), pack([1.0, 5, 0])])
def test_a_payload_that_is_no_batch_is_refused_by_name(payload):
    """The stream's name is in the message."""
    with pytest.raises(BadInput) as caught:
        decode(payload)

    assert caught.value.where == "events of pod-0"


def test_signed_hashes_are_read_as_their_unsigned_twins():
    """LMCache publishes signed numbers for the same 64 bits."""
    event = {"type": "BlockRemoved", "block_hashes": [-1, 2**64 - 2], "medium": "GPU"}

    (change,) = decode(pack([1.0, [event], 0])).changes

    assert change.block_hashes == (BLOCK_HASH_MASK, BLOCK_HASH_MASK - 1)


@pytest.mark.parametrize(
    ("medium", "tier"),
    [
        ("GPU", Tier.L0),
        ("cuda:0", Tier.L0),
        ("device(type='cuda', index=0)", Tier.L0),
        ("CPU", Tier.L1),
        ("cpu", Tier.L1),
        (" Cpu ", Tier.L1),
        ("LocalCPUBackend", Tier.L1),
        ("FS", Tier.L2),
        ("STORAGE", Tier.L2),
        ("OBJ", Tier.L2),
        ("tape", None),
        ("", None),
        (None, None),
    ],
)
def test_a_medium_is_known_however_it_is_spelled(medium, tier):
    """UD-35: media have been spelled in many ways; one nobody knows is no tier's."""
    assert tier_of_medium(medium) is tier
