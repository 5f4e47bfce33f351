"""The storage hook's records as what L2 did, and as the split of requests inside one engine."""

from __future__ import annotations

import msgspec
import pytest

from exporters.admissions import Admissions
from exporters.engines import EngineFacts
from exporters.lmcache.storage_stream import KINDS, StorageStream
from exporters.private import keyed_hash
from exporters.storage_reads import StorageReads
from exporters.vllm.hook import Admit, First
from tests.captured import ENGINE
from tierscope.domain.errors import BadInput
from tierscope.domain.events import BlockAction, BlockEvent, TierTransfer, TransferAction
from tierscope.domain.requests import ExternalReason
from tierscope.domain.tiers import Tier
from tierscope.telemetry.request_spans import spans_of
from tierscope_probe.storage import STORAGE_RECORDS, write_record

HELLO = write_record("hello", 0.0, "lmcache_storage", "inside", 0, 1, 64, "fs", {})


def reading(chunk, *rids, size=1000, at=1.5):
    return write_record("read", list(rids or ("r",)), chunk.to_bytes(8, "big"), 64, size, at, at + 0.25)


def writing(chunk, size=1000, at=1.5):
    return write_record("write", chunk.to_bytes(8, "big"), size, at, at + 0.25)


def stats(at, waiting=0, dropped=0):
    return write_record("stats", at, waiting, 0, 0, 0, 0, dropped, 0, 0, 0)


class Worker:
    """One worker's stream and the engine whose requests it reads for."""

    def __init__(self, worker=0, **fields):
        self.reads = StorageReads("inside")
        self.stream = StorageStream("pool", worker, self.reads, where="test", **fields)
        facts = EngineFacts(model="m", block_tokens=32, lookups=self.reads)
        self.admissions = Admissions(ENGINE, facts, keyed_hash(b"a key of sixteen"))

    def tell(self, *records):
        return self.stream.message(msgspec.msgpack.encode([HELLO, *records]), 3)

    def ask(self, rid="r", external=256, at=1.0):
        """A request of 300 tokens that loads, and its first token a second later."""
        admit = Admit(ts=at, rid=rid, prompt=300, external=external, ps=(300, 0, external))
        return self.admissions.apply([admit, First(ts=at + 1, rid=rid, ttft_s=1.0)]).records


@pytest.fixture
def worker():
    return Worker()


def test_what_was_read_for_a_request_is_in_its_trace(worker):
    """Chunk by chunk with the hook's own times; of the lookup inside the engine nobody tells any."""
    worker.tell(reading(1), reading(2, size=2000, at=1.625), reading(3, "other"), stats(9.0))

    (record,) = worker.ask()

    _, *reads = spans_of(record)
    assert [(span.name, span.start_ns / 1e9, span.end_ns / 1e9) for span in reads] == [
        ("kv.l2.read", 1.5, 1.75),
        ("kv.l2.read", 1.625, 1.875),
    ]
    assert [span.attributes["tierscope.read.bytes"] for span in reads] == [1000, 2000]
    assert {span.attributes["tierscope.source"] for span in reads} == {"lmcache_records:inside"}


def test_a_read_is_a_load_of_l2_with_its_bytes_and_its_time(worker):
    """Whoever asks how slow L2 is, asks these."""
    (load,) = worker.tell(reading(7)).entries

    assert load == TierTransfer(Tier.L2, "pool", TransferAction.LOAD, 1.75, 1.5, "fs", 1, 0, 1000)


def test_a_chunk_that_was_gone_is_a_failed_load(worker):
    """LMCache's lookup had found it."""
    (load,) = worker.tell(reading(7, size=None)).entries

    assert (load.moved_blocks, load.failed_blocks, load.reason) == (0, 1, "not_found")


def test_written_chunks_came_into_the_pool(worker):
    """Stored together, by their hashes; what could not be written did not come."""
    *_, stored = worker.tell(writing(1), writing(2), writing(3, size=None)).entries

    assert isinstance(stored, BlockEvent)
    assert (stored.tier, stored.holder, stored.action) == (Tier.L2, "pool", BlockAction.STORED)
    assert (stored.block_hashes, stored.block_tokens, stored.sequence) == ((1, 2), 64, 3)


@pytest.mark.parametrize("other", [Worker(worker=1), Worker(pool_is_scanned=True)], ids=["rank", "scanned"])
def test_a_chunk_comes_into_the_pool_once(other):
    """Told by the first worker alone, and not at all where a scan tells it."""
    assert not [entry for entry in other.tell(writing(1)).entries if isinstance(entry, BlockEvent)]


def test_external_tokens_of_a_request_are_split_by_what_was_read_for_it(worker):
    """256 through the connector: one chunk of 64 was read from L2, so 192 came from L1."""
    assert worker.ask() == []

    worker.tell(reading(7), stats(2.5))
    (record,) = worker.admissions.settle(0.0).records

    assert (record.tokens.l1, record.tokens.l2, record.tokens.external) == (192, 64, 0)
    assert record.external_reason is None
    assert [load.size_bytes for load in record.lookup.loads] == [1000]


def test_a_request_for_which_nothing_was_read_came_from_l1(worker):
    """The hook had nothing to tell of it, and said so."""
    worker.ask()

    worker.tell(stats(2.5))
    (record,) = worker.admissions.settle(0.0).records

    assert (record.tokens.l1, record.tokens.l2) == (256, 0)


def test_while_records_wait_in_the_hook_nothing_is_settled(worker):
    """What is in line may be of this request; the statistics before are the last sure ones."""
    worker.ask()

    worker.tell(stats(2.5, waiting=3))

    assert worker.admissions.settle(0.0).records == []


@pytest.mark.parametrize("loss", ["gap", "drop"])
def test_tokens_whose_reads_may_be_lost_stay_external(worker, loss):
    """With the reason, and nothing guessed."""
    worker.ask()
    if loss == "gap":
        worker.stream.lost()

    worker.tell(stats(2.5, dropped=int(loss == "drop")))
    (record,) = worker.admissions.settle(0.0).records

    assert (record.tokens.external, record.external_reason) == (256, ExternalReason.LOOKUP_MISSING)


def test_without_the_hook_tokens_stay_external():
    """Nobody tells which tier they came from."""
    worker = Worker()
    worker.admissions = Admissions(ENGINE, EngineFacts(model="m"), keyed_hash(b"a key of sixteen"))

    (record,) = worker.ask()

    assert (record.tokens.external, record.external_reason) == (256, ExternalReason.NOT_REPORTED)


def test_records_it_dropped_are_missing(worker):
    """Each once, however often it says the sum."""
    assert worker.tell(stats(1.0, dropped=2)).missing == 2
    assert worker.tell(stats(2.0, dropped=5)).missing == 3


def test_every_kind_the_probe_sends_is_known():
    """And a strange one costs itself alone."""
    assert set(KINDS) == set(STORAGE_RECORDS)
    reading_ = Worker().tell({"t": "new"}, reading(1))
    assert [oddity.what for oddity in reading_.oddities] == ["kind new"]
    assert len(reading_.entries) == 1


def test_a_payload_that_is_no_list_is_refused(worker):
    """It is some other stream's."""
    with pytest.raises(BadInput):
        worker.stream.message(b"\x00", 0)
