"""What the records of a real LMCache server say of L1 and L2, and what is made of every other record."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from exporters.lmcache.record_stream import MOST_CHUNKS, RecordStream
from exporters.lmcache.records import KINDS
from exporters.lmcache.suspicion import ServerJudge
from exporters.lookups import Lookups
from tests.admitted import wanted
from tests.captured import lmcache_payloads
from tierscope.domain.errors import BadInput
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    EvictionReason,
    TierActivity,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.requests import TierLoad
from tierscope.domain.tiers import Tier
from tierscope_probe.lmcache_records import RECORDS

CHUNK = (1).to_bytes(8, "big")
OTHER = (2).to_bytes(8, "big")


@pytest.fixture
def stream():
    return RecordStream("server", "pool", Lookups(), "test", ServerJudge("test"))


def told(stream, *records, sequence=0):
    """What one message of records leads to."""
    return stream.message(msgspec.msgpack.encode(list(records)), sequence)


def entries(stream, *records):
    return told(stream, *records).entries


def stats(ts=1.0, **fields):
    return {"t": "stats", "ts": ts, **fields}


class Run:
    """All entries of one recorded server."""

    def __init__(self, path, **fields):
        self.stream = RecordStream("server", "pool", Lookups(), "capture", ServerJudge("capture"), **fields)
        self.entries = []
        for sequence, payload in enumerate(lmcache_payloads(path)):
            reading = self.stream.message(payload, sequence)
            assert not reading.oddities
            self.entries += reading.entries

    def blocks(self):
        """Blocks by tier, action and reason."""
        counted = Counter()
        for event in self.entries:
            if isinstance(event, BlockEvent):
                counted[event.tier, event.action, event.reason] += len(event.block_hashes)
        return counted

    def lookups(self, tier):
        """Tokens found and not found in a tier."""
        asked = [e for e in self.entries if isinstance(e, TierActivity) and e.tier is tier]
        return sum(e.lookup_hit_tokens for e in asked), sum(e.lookup_miss_tokens for e in asked)

    def transfers(self, tier, action):
        return [
            e for e in self.entries if isinstance(e, TierTransfer) and (e.tier, e.action) == (tier, action)
        ]

    def moved(self, tier, action):
        """Objects moved, failed by reason, and bytes."""
        found = self.transfers(tier, action)
        failed = Counter()
        for transfer in found:
            failed[transfer.reason] += transfer.failed_blocks
        return sum(t.moved_blocks for t in found), +failed, sum(t.size_bytes or 0 for t in found)


@pytest.fixture(scope="module")
def pull(captures):
    """A server alone, 37 requests, L1 of 32 chunks of 131,072 bytes, a directory as L2."""
    return Run(captures / "lmcache/mp_pull/events.jsonl")


def test_hits_are_told_by_tier(pull):
    """1,920 tokens: 1,024 in L1, 896 more in L2; of 9,600 asked the rest was missed."""
    assert pull.lookups(Tier.L1) == (1_024, 8_576)
    assert pull.lookups(Tier.L2) == (896, 7_680)


def test_evictions_are_told_apart(pull):
    """41 chunks made room, 14 had come for one read; what came less what left is what is there."""
    blocks = pull.blocks()

    assert blocks[Tier.L1, BlockAction.EVICTED, EvictionReason.CAPACITY] == 41
    assert blocks[Tier.L1, BlockAction.EVICTED, EvictionReason.AFTER_READ] == 14
    assert blocks[Tier.L1, BlockAction.STORED, None] == 64 + 14
    assert blocks[Tier.L2, BlockAction.STORED, None] == 63
    assert blocks.total() == 41 + 14 + 78 + 63


def test_what_was_moved_has_its_bytes_and_what_was_not_its_reason(pull):
    """120 chunks were answered as stored, 64 were; L2 wrote all but one that it had, and gave 14."""
    chunk_bytes = 131_072

    assert pull.moved(Tier.L1, TransferAction.STORE) == (64, {"l1_full": 56}, 64 * chunk_bytes)
    assert pull.moved(Tier.L1, TransferAction.LOAD) == (30, {}, 30 * chunk_bytes)
    assert pull.moved(Tier.L2, TransferAction.STORE) == (64, {}, 63 * chunk_bytes)
    assert pull.moved(Tier.L2, TransferAction.LOAD)[0] == 14
    assert {t.adapter for t in pull.transfers(Tier.L2, TransferAction.LOAD)} == {"fs"}
    assert all(
        t.started_unix_seconds < t.at_unix_seconds for t in pull.transfers(Tier.L2, TransferAction.LOAD)
    )


def test_a_restart_says_what_it_lost(pull):
    """L1 begins anew empty: the 23 chunks that were there are gone."""
    (event,) = pull.stream.restart(50.0).entries

    assert (event.tier, event.reason, len(event.block_hashes)) == (Tier.L1, EvictionReason.RESTART, 23)
    assert not pull.stream.restart(51.0).entries


def test_a_scanned_pool_is_told_by_its_scan(captures):
    """No chunk is said twice to have come into it; its transfers are the server's own."""
    run = Run(captures / "lmcache/mp_pull/events.jsonl", pool_is_scanned=True)

    assert {tier for tier, *_ in run.blocks()} == {Tier.L1}
    assert run.moved(Tier.L2, TransferAction.STORE)[0] == 64


def test_every_kind_of_record_the_probe_sends_is_known():
    """By name, and no field of ours is one that it does not send."""
    assert {str(kind.__struct_config__.tag) for kind in KINDS} == set(RECORDS)
    for kind in KINDS:
        assert set(kind.__struct_fields__) <= set(RECORDS[str(kind.__struct_config__.tag)])


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ({"t": "l2_evicted", "ts": 5.0, "keys": 1}, EvictionReason.CAPACITY),
        ({"t": "l2_evicted", "ts": 5.0, "keys": 9}, EvictionReason.DELETE),
        (stats(5.0), EvictionReason.DELETE),
    ],
)
def test_a_removal_from_l2_is_lmcaches_own_or_somebodys_wish(stream, after, reason):
    """The next record says which."""
    assert not entries(stream, {"t": "l2_removed", "ts": 4.0, "l2_name": "fs", "keys": 1, "chunks": [CHUNK]})

    (event,) = entries(stream, after)

    assert (event.tier, event.holder, event.reason, event.block_hashes) == (Tier.L2, "pool", reason, (1,))
    assert (event.at_unix_seconds, event.sequence) == (4.0, 0)


@pytest.mark.parametrize(
    ("record", "tier", "action"),
    [
        ({"t": "store_refused", "ts": 1.0, "reason": "expired", "keys": 2}, Tier.L1, TransferAction.STORE),
        ({"t": "l1_read_failed", "ts": 1.0, "reason": "expired", "keys": 2}, Tier.L1, TransferAction.LOAD),
        ({"t": "l2_failed", "ts": 1.0, "reason": "expired", "keys": 2}, Tier.L2, TransferAction.LOAD),
    ],
)
def test_what_failed_is_told_with_its_reason(stream, record, tier, action):
    """A store that was answered and not kept, a read that came too late, a load without room."""
    (transfer,) = entries(stream, record)

    assert (transfer.tier, transfer.action, transfer.reason) == (tier, action, "expired")
    assert (transfer.moved_blocks, transfer.failed_blocks) == (0, 2)


def test_a_failed_allocation_counts_as_what_failed_for_it(stream):
    """The server tells it twice."""
    assert not entries(stream, {"t": "l1_alloc_failed", "ts": 1.0, "during": "l1_store", "keys": 2})


def test_a_load_of_which_a_part_failed_has_the_bytes_of_the_rest(stream):
    """Objects of one task have one size."""
    load = {"t": "load", "end": 2.0, "start": 1.0, "rid": "r", "l2_name": "fs", "keys": 4, "bytes": 400}

    (part,) = entries(stream, {**load, "loaded_keys": 3, "failed_keys": 1})
    (unknown,) = entries(stream, {**load, "loaded_keys": None, "failed_keys": None})

    assert (part.moved_blocks, part.size_bytes) == (3, 300)
    assert (unknown.moved_blocks, unknown.size_bytes) == (0, None)


def test_a_lookup_waits_for_its_admission_with_what_was_loaded_for_it(stream):
    """The load of an earlier lookup is not its own."""
    load = {"t": "load", "rid": "r", "l2_name": "fs", "keys": 1, "loaded_keys": 1, "bytes": 9}
    lookup = {"t": "lookup", "rid": "r", "hit_tokens": 128, "l1_hit_tokens": 64, "l2_hit_tokens": 64}

    told(
        stream,
        {**load, "start": 1.0, "end": 1.5},
        {**load, "start": 3.1, "end": 3.5},
        {**lookup, "k": 1, "start": 3.0, "end": 4.0},
    )

    found = stream.lookups.take(wanted("r", 1))
    assert (found.server, found.hit_tokens, found.l1_hit_tokens) == ("server", 128, 64)
    assert found.loads == (TierLoad(Tier.L2, 3.5, 3.1, 1, 9, "fs"),)
    assert stream.lookups.take(wanted("r", 1)) is None


def test_a_release_that_tells_no_split_settles_nothing(stream):
    """Without tokens by tier a lookup is none that could split an admission."""
    told(stream, {"t": "lookup", "rid": "r", "end": 1.0, "hit_tokens": 64})

    assert stream.lookups.take(wanted("r", 0)) is None


def test_what_is_known_to_be_told_follows_the_statistics(stream):
    """What was in line at one statistics has been sent by the next; what the bus held is not told yet."""
    told(stream, stats(10.0, bus_lag_s=2.0))
    assert not stream.lookups.cannot_come(wanted(admitted=1.0))

    told(stream, stats(11.0))

    assert stream.lookups.cannot_come(wanted(admitted=7.0))
    assert not stream.lookups.cannot_come(wanted(admitted=8.0))


def test_what_the_probe_or_the_bus_dropped_is_missing(stream):
    """Since the server's start where its greeting was heard, else since the first statistics."""
    hello = {"t": "hello", "ts": 0.0, "chunk_size": 64}
    late = RecordStream("server", "pool", Lookups(), "test", ServerJudge("test"))

    assert told(stream, hello, stats(dropped=2, bus_dropped=3)).missing == 5
    assert told(stream, hello, stats(dropped=2, bus_dropped=4)).missing == 1
    assert told(late, stats(dropped=7)).missing == 0
    assert stream.stale
    assert not stream.restart(9.0).entries, "what L1 held is not known"
    assert not stream.stale


def test_after_a_gap_what_l1_holds_is_unknown(stream):
    """A restart then tells of no chunk, because some may have left unseen."""
    stored = {"t": "l1_stored", "ts": 1.0, "source": "store", "keys": 2, "chunks": [CHUNK, OTHER]}
    told(stream, stored)
    stream.lost()

    assert not stream.restart(2.0).entries
    told(stream, stored)
    (event,) = stream.restart(3.0).entries
    assert sorted(event.block_hashes) == [1, 2]


def test_copies_of_a_chunk_are_followed_each(stream):
    """One model's or tenant's copy may leave while another's stays."""
    stored = {"t": "l1_stored", "ts": 1.0, "keys": 1, "chunks": [CHUNK]}
    left = {"t": "l1_evicted", "ts": 2.0, "reason": "a new one", "keys": 1, "chunks": [CHUNK]}

    told(stream, stored, stored, left)
    (gone,) = stream.restart(3.0).entries
    (unknown,) = entries(stream, left)

    assert gone.block_hashes == (1,)
    assert unknown.reason is EvictionReason.UNKNOWN


def test_more_chunks_than_are_followed_cost_only_the_tale_of_a_restart(stream):
    """Memory is bounded; what comes and goes is still told."""
    chunks = [number.to_bytes(8, "big") for number in range(MOST_CHUNKS + 1)]

    (event,) = entries(stream, {"t": "l1_stored", "ts": 1.0, "keys": 1, "chunks": chunks})

    assert len(event.block_hashes) == MOST_CHUNKS + 1
    assert not stream.restart(2.0).entries


def test_what_cannot_be_read_is_named_and_costs_itself(stream):
    """A newer probe's kind, a field of another type; a payload that is no list is refused."""
    reading = told(stream, {"t": "novelty"}, {"t": "l2_evicted", "ts": "late"}, stats())

    assert [oddity.what for oddity in reading.oddities] == ["kind novelty", "unreadable l2_evicted"]
    with pytest.raises(BadInput, match="cannot be read"):
        stream.message(b"\xc1", 0)


def test_the_recorded_servers_findings(pull):
    """Its L1 was full, and one file was unlinked under it."""
    kinds = {finding.kind: finding.error.what for finding in pull.stream.findings}

    assert kinds.keys() == {"stores_are_answered_but_not_kept", "pool_lost_chunks_unannounced"}
    assert "120 objects that engines stored, 56 were" in kinds["stores_are_answered_but_not_kept"]
    assert "1 did not find it" in kinds["pool_lost_chunks_unannounced"]


def lookup(**fields):
    return {"t": "lookup", "rid": "r", "start": 5.0, "end": 6.0, "hit_tokens": 0, "model": "m", **fields}


def of_l2(kind, ts, **fields):
    return {"t": kind, "ts": ts, "model": "m", "keys": 1, "chunks": [CHUNK], **fields}


@pytest.mark.parametrize(
    ("between", "lost"),
    [
        pytest.param((), 1, id="nothing"),
        pytest.param((of_l2("l2_removed", 4.0),), 0, id="deleted"),
        pytest.param((of_l2("l2_failed", 5.5, reason="l1_oom"),), 0, id="found without room for it"),
        pytest.param((of_l2("l2_stored", 5.5),), 0, id="written meanwhile"),
    ],
)
def test_a_chunk_that_is_not_found_where_it_was_written_was_removed_by_the_pool(stream, between, lost):
    """Unless the server deleted it, had no room for it, or wrote it only after it was asked."""
    told(stream, {"t": "hello", "ts": 0.0, "chunk_size": 64})
    told(stream, of_l2("l2_stored", 1.0), *between)

    told(stream, lookup(hashes=[CHUNK, OTHER]))

    assert len(stream.findings) == lost


def test_another_tenants_chunk_is_another_chunk(stream):
    """It was never written under this salt, so it is not missing."""
    told(stream, {"t": "hello", "ts": 0.0, "chunk_size": 64})
    told(stream, of_l2("l2_stored", 1.0, salt="one"))

    told(stream, lookup(salt="two", hashes=[CHUNK]))

    assert not stream.findings
