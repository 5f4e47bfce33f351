"""What LMCache inside an engine tells its controller, recorded and made up, as what L1 holds."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest

from exporters.lmcache.controller import Controller, answer_to, decode_messages
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, EvictionReason
from tierscope.domain.tiers import Tier

L1, DISK = "LocalCPUBackend", "LocalDiskBackend"


@pytest.fixture
def controller():
    return Controller("inside", where="test", chunk_tokens=64)


def operations(*done, worker=0, location=L1, first=0):
    """A message of (what, chunk) in one storage, numbered from `first`."""
    numbered = [{"op_type": what, "key": chunk, "seq_num": first + i} for i, (what, chunk) in enumerate(done)]
    return {
        "type": "BatchedKVOperationMsg",
        "instance_id": "i",
        "worker_id": worker,
        "location": location,
        "operations": numbered,
    }


def register(worker=0):
    return {"type": "RegisterMsg", "instance_id": "i", "worker_id": worker, "ip": "192.0.2.1", "port": 1}


def told(controller, *messages):
    """What messages lead to, one after the other, as workers encode them."""
    readings = []
    for message in messages:
        (decoded,) = decode_messages(msgspec.msgpack.encode(message), where="test")
        readings.append(controller.message(decoded, 1.0))
    return readings


def events(*readings):
    return [
        (event.tier, event.action, event.block_hashes, event.reason)
        for reading in readings
        for event in reading.entries
    ]


def test_a_recorded_worker_tells_what_came_and_left(controller, captures):
    """86 chunks came into L1, 54 left it, 32 are there: as LMCache's own counters and gauges say."""
    lines = (captures / "lmcache" / "inproc_fs" / "controller_messages.jsonl").read_text("utf-8").splitlines()
    messages = [{k: v for k, v in json.loads(line).items() if k not in ("t", "channel")} for line in lines]

    readings = told(controller, *messages)

    counts = Counter()
    for tier, action, chunks, _ in events(*readings):
        assert tier is Tier.L1
        counts[action] += len(chunks)
    assert counts == {BlockAction.STORED: 86, BlockAction.EVICTED: 54}
    assert controller.resident(Tier.L1) == 32
    assert sum(reading.missing for reading in readings) == 0
    assert not controller.stale


def test_a_chunk_comes_with_the_first_part_and_leaves_with_the_last(controller):
    """Two workers each have a part of it."""
    readings = told(
        controller,
        operations(("admit", 7)),
        operations(("admit", 7), worker=1),
        operations(("evict", 7), first=1),
        operations(("evict", 7), worker=1, first=1),
    )

    assert events(*readings) == [
        (Tier.L1, BlockAction.STORED, (7,), None),
        (Tier.L1, BlockAction.EVICTED, (7,), EvictionReason.UNKNOWN),
    ]


def test_a_workers_own_disk_is_l2_and_numbers_its_own_operations(controller):
    """And a chunk's hash is what the pool's events call it, whatever its sign."""
    readings = told(controller, operations(("admit", -1)), operations(("admit", -1), location=DISK))

    assert events(*readings) == [
        (Tier.L1, BlockAction.STORED, (2**64 - 1,), None),
        (Tier.L2, BlockAction.STORED, (2**64 - 1,), None),
    ]
    assert not controller.stale


@pytest.mark.parametrize("how", ["registers", "counts anew"])
def test_a_worker_that_restarted_lost_its_memory(controller, how):
    """Whether it says so or only counts from the start again."""
    again = register() if how == "registers" else operations(("admit", 9))

    *_, last = told(controller, operations(("admit", 7), ("admit", 8)), again)

    assert events(last)[0] == (Tier.L1, BlockAction.EVICTED, (7, 8), EvictionReason.RESTART)


def test_operations_that_never_came_are_missing_and_what_l1_holds_is_unknown(controller):
    """Numbers 1 to 4 of a worker are skipped."""
    first, second = told(controller, operations(("admit", 1)), operations(("admit", 2), first=5))

    assert (first.missing, second.missing) == (0, 4)
    assert controller.stale


def test_who_listens_late_lost_what_was_before_and_sees_it_leave(controller):
    """The first number is not the first. A chunk leaves once, with whichever worker's part is told first."""
    readings = told(
        controller,
        operations(("evict", 1), first=10),
        operations(("evict", 1), first=10, worker=1),
        operations(("admit", 1), ("evict", 1), first=11),
        operations(("evict", 2), first=11, worker=1),
    )

    assert [reading.missing for reading in readings] == [10, 10, 0, 0]
    assert [(action, chunks) for _, action, chunks, _ in events(*readings)] == [
        (BlockAction.EVICTED, (1,)),
        (BlockAction.STORED, (1,)),
        (BlockAction.EVICTED, (1,)),
        (BlockAction.EVICTED, (2,)),
    ]


def test_who_heard_everything_believes_in_no_departure_of_what_never_came(controller):
    """Nothing was lost, so it was not there."""
    (reading,) = told(controller, operations(("admit", 1), ("evict", 2)))

    assert [action for _, action, _, _ in events(reading)] == [BlockAction.STORED]


def test_a_storage_of_no_known_tier_is_told(controller):
    """Its chunks are in no tier's numbers."""
    (reading,) = told(controller, operations(("admit", 1), ("admit", 2), location="GdsBackend"))

    (oddity,) = reading.oddities
    assert (oddity.what, oddity.count) == ("medium GdsBackend", 2)


def test_several_messages_may_come_in_one_payload():
    """Releases differ in how they send them."""
    payload = msgspec.msgpack.encode([register(), operations(("admit", 1))])

    assert len(decode_messages(payload, where="test")) == 2


def test_what_is_no_message_is_refused():
    """It is named with its address."""
    with pytest.raises(BadInput):
        decode_messages(b"\xc1nothing", where="test")


def test_workers_are_welcomed_and_told_that_nobody_else_has_their_chunks():
    """LMCache waits for both answers."""
    (asked,) = decode_messages(
        msgspec.msgpack.encode({"type": "BatchedP2PLookupMsg", "hashes": [1]}), where="test"
    )
    (began,) = decode_messages(msgspec.msgpack.encode(register()), where="test")

    assert msgspec.msgpack.decode(answer_to(began)) == {"type": "RegisterRetMsg", "extra_config": {}}
    assert msgspec.msgpack.decode(answer_to(asked))["layout_info"] == [["", "", 0, ""]]
