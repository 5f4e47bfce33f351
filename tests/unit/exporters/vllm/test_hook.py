"""The hook's records as they come from real engines, and records that nobody knows."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from exporters.vllm.hook import Admit, First, HashDelta, Hello, decode_records
from tests.captured import expected, hook_payloads
from tierscope.domain.errors import BadInput

pack = msgspec.msgpack.encode


def decode(*records):
    return decode_records(pack(list(records)), where="hook of pod-0")


@pytest.mark.parametrize("run", ["a_alone", "b_offloading", "c_lmcache_mp"])
def test_every_recorded_record_is_read(captures, run):
    """All kinds of three real runs, none left over, as many of each as were counted."""
    folder = captures / "observer" / run
    kinds = Counter()
    for payload in hook_payloads(folder):
        batch = decode_records(payload, where="capture")
        assert not batch.oddities
        kinds.update(type(record).__name__.lower() for record in batch.records)

    assert kinds == expected(folder)["records"]


@pytest.mark.parametrize("payload", [b"\x91" * 100_000, b"\x91\x81\xa1t" + b"\x91" * 100_000])
def test_nesting_without_end_is_no_fault_of_ours(payload):
    """A payload deeper than any stack is refused like any other that cannot be read."""
    with pytest.raises(BadInput, match="cannot be read"):
        decode_records(payload, where="hook of pod-0")


def test_a_record_nobody_knows_costs_only_itself():
    """A later kind, a broken record and a thing that is no record are named; the rest is read."""
    batch = decode(
        {"t": "evict", "ts": 1.0},
        {"t": "first", "ts": 2.0, "rid": "a", "ttft_s": 0.5, "a later field": 1},
        {"t": "admit", "ts": 3.0, "rid": "b", "prompt": "many"},
        "nonsense",
    )

    assert batch.records == (First(ts=2.0, rid="a", ttft_s=0.5),)
    assert [oddity.what for oddity in batch.oddities] == [
        "kind evict",
        "unreadable admit",
        "item without a kind",
    ]


def test_a_chain_may_come_whole_or_as_what_is_new():
    """`from`, `anchor` and `new` stand for a chain whose beginning is known."""
    delta = {"from": 2, "anchor": b"12345678", "new": [b"abcdefgh"]}

    whole, partial = decode(
        {"t": "admit", "ts": 1, "rid": "a", "prompt": 64, "hashes": [b"12345678", 7]},
        {"t": "admit", "ts": 1, "rid": "b", "prompt": 64, "hashes": delta},
    ).records

    assert whole.hashes == [b"12345678", 7]
    assert partial.hashes == HashDelta(start=2, anchor=b"12345678", new=[b"abcdefgh"])


def test_whole_numbers_are_times_too():
    """A publisher that writes 1 for 1.0 is understood."""
    (hello,) = decode({"t": "hello", "ts": 1, "block_size": 16, "model": "m"}).records

    assert hello == Hello(ts=1.0, block_size=16, model="m")


def test_fields_that_are_missing_are_what_they_mean_when_missing():
    """An older hook without load, session or split is read as one that had none."""
    (admit,) = decode({"t": "admit", "ts": 1.0, "rid": "a", "prompt": 5}).records

    assert admit == Admit(ts=1.0, rid="a", prompt=5, attempt=0, local=0, external=0)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"text", pack({"t": "hello"}), pack(5)])
def test_a_payload_that_is_no_list_is_refused_by_name(payload):
    """The stream's name is in the message."""
    with pytest.raises(BadInput) as caught:
        decode_records(payload, where="hook of pod-0")

    assert caught.value.where == "hook of pod-0"
