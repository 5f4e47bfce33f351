"""What an LMCache server tells its coordinator, recorded and made up, and the address it tells it at."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter

import httpx
import pytest

from exporters.health import Health, Voice
from exporters.ledger import Ledger
from exporters.lmcache.coordinator import CoordinatorStream, decode_batches
from exporters.lmcache.coordinator_listener import PATIENCE_SECONDS, CoordinatorListener
from exporters.oddities import Oddities
from exporters.pages import Desk
from tests.exporting import await_true
from tierscope.domain.errors import BadInput, BadSettings
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason, TierSample
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.tiers import Tier
from tierscope.registry import metrics

SOURCE = SourceId(SourceKind.LMCACHE_COORDINATOR, "node-1")


@pytest.fixture
def stream():
    return CoordinatorStream("node-1", "pool")


@pytest.fixture
def requests(captures):
    """Every request of one server's life, as it sent them."""
    path = captures / "lmcache" / "mp_otlp_coordinator" / "coordinator_http.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def batch(seq, event="store", *chunks, tier="l1", incarnation=1, rank=0, salt="", model="m", **fields):
    same = {"kv_rank": rank, "cache_salt": salt, "model_name": model}
    entries = [
        {"key": {"chunk_hash_hex": f"{chunk:064x}", **same}, "size_bytes": 100, "token_ids": [1, 2]}
        for chunk in chunks
    ]
    told = {"seq": seq, "event_type": event, "tier": tier, "ts": float(seq), "incarnation": incarnation}
    return {**told, "instance_id": "a", "backend": "dram", "entries": entries, **fields}


def take(stream, *batches):
    return stream.take(decode_batches(json.dumps({"batches": batches}).encode(), where="test"))


def events(reading):
    return [
        (entry.tier, entry.action, entry.block_hashes, entry.reason)
        for entry in reading.entries
        if isinstance(entry, BlockEvent)
    ]


def sample(reading):
    return next(entry for entry in reading.entries if isinstance(entry, TierSample))


def test_a_recorded_server_tells_what_came_and_left(stream, requests):
    """78 chunks came into L1 of 4 MiB and 57 left, 63 came into the pool; 21 are there at the end."""
    counts = Counter()
    for request in requests:
        if request["path"] == "/events":
            reading = stream.take(decode_batches(json.dumps(request["body"]).encode(), where="test"))
            assert reading.missing == 0
            for tier, action, chunks, _ in events(reading):
                counts[tier, action] += len(chunks)

    assert counts == {
        (Tier.L1, BlockAction.STORED): 78,
        (Tier.L1, BlockAction.EVICTED): 57,
        (Tier.L2, BlockAction.STORED): 63,
    }
    last = sample(reading)
    assert (last.capacity_bytes, last.used_blocks, last.used_bytes) == (4 * 1024**2, 21, 21 * 131072)


def test_a_chunk_comes_with_its_first_object_and_leaves_with_its_last(stream):
    """It has one for each KV rank."""
    reading = take(
        stream,
        batch(1, "store", 7),
        batch(2, "store", 7, rank=1),
        batch(3, "delete", 7),
        batch(4, "delete", 7, rank=1),
    )

    assert events(reading) == [
        (Tier.L1, BlockAction.STORED, (7,), None),
        (Tier.L1, BlockAction.EVICTED, (7,), EvictionReason.UNKNOWN),
    ]


def test_equal_tokens_under_another_salt_or_of_another_model_are_another_chunk(stream):
    """They share a hash and nothing else: each comes, and leaves, by itself."""
    reading = take(
        stream,
        batch(1, "store", 7),
        batch(2, "store", 7, salt="tenant"),
        batch(3, "store", 7, model="other"),
        batch(4, "delete", 7, salt="tenant"),
    )

    assert [(action, chunks) for _, action, chunks, _ in events(reading)] == [
        *[(BlockAction.STORED, (7,))] * 3,
        (BlockAction.EVICTED, (7,)),
    ]
    assert (sample(reading).used_blocks, sample(reading).used_bytes) == (2, 200)


def test_who_listens_late_sees_what_was_there_leave(stream):
    """Each chunk once, whichever of its objects are told of: 7 came before, of 8 one rank did."""
    reading = take(
        stream,
        batch(5, "store", 8, rank=1),
        batch(6, "delete", 7, 8),
        batch(7, "delete", 7, 8, rank=1),
        batch(8, "delete", 8),
        batch(9, "store", 7),
        batch(10, "delete", 7),
    )

    assert reading.missing == 4
    assert [(action, chunks) for _, action, chunks, _ in events(reading)] == [
        (BlockAction.STORED, (8,)),
        (BlockAction.EVICTED, (7,)),
        (BlockAction.EVICTED, (8,)),
        (BlockAction.STORED, (7,)),
        (BlockAction.EVICTED, (7,)),
    ]


def test_a_chunk_that_is_stored_again_was_gone(stream):
    """The pool lost its file, which nobody told the server; each rank stores its part, and that is once."""
    ranks = [batch(seq, "store", 7, tier="l2", rank=seq % 2) for seq in (1, 2, 3, 4)]

    assert [chunks for _, _, chunks, _ in events(take(stream, *ranks))] == [(7,), (7,)]


def test_a_new_life_of_the_server_has_an_empty_l1_and_an_old_one_is_not_heard(stream):
    """UD-39: incarnation 1 to 2 fences what 1 held; what 1 still says is ignored."""
    take(stream, batch(1, "store", 7, 8))

    reading = take(stream, batch(1, "store", 9, incarnation=2), batch(2, "store", 10, incarnation=1))

    assert events(reading) == [
        (Tier.L1, BlockAction.EVICTED, (7, 8), EvictionReason.RESTART),
        (Tier.L1, BlockAction.STORED, (9,), None),
    ]
    assert sample(reading).used_bytes == 100


def test_batches_that_never_came_are_missing_and_what_l1_holds_is_absent(stream):
    """A request that fails is dropped by the server; its number shows it."""
    reading = take(stream, batch(1, "store", 7), batch(4, "store", 8))

    assert reading.missing == 2
    assert stream.stale
    assert not [entry for entry in reading.entries if isinstance(entry, TierSample)]


def test_what_a_server_sends_after_it_left_fills_no_l1(stream):
    """UD-39: its last flush follows its farewell. What came into the pool did; L1 is empty, and not told."""
    take(stream, batch(1, "store", 7))
    assert [event.block_hashes for event in stream.leave(9.0)] == [(7,)]

    reading = take(stream, batch(2, "store", 8), batch(3, "store", 8, tier="l2"), batch(4, "delete", 7))

    assert events(reading) == [
        (Tier.L1, BlockAction.STORED, (8,), None),
        (Tier.L2, BlockAction.STORED, (8,), None),
        (Tier.L1, BlockAction.EVICTED, (8,), EvictionReason.RESTART),
    ]
    assert [*stream.held(9.0)] == [entry for entry in reading.entries if isinstance(entry, TierSample)] == []


def test_what_a_server_took_along_is_not_gone_again_where_batches_were_lost(stream):
    """Each chunk leaves once, with its end; the pool lets go of what nobody saw come, as ever."""
    take(stream, batch(1, "store", 7), batch(4, "store", 8))
    stream.leave(9.0)

    reading = take(stream, batch(5, "delete", 7, 8), batch(6, "delete", 9, tier="l2"))

    assert events(reading) == [(Tier.L2, BlockAction.EVICTED, (9,), EvictionReason.UNKNOWN)]


def test_who_is_first_heard_of_when_it_leaves_fills_no_l1(stream):
    """The exporter began a moment before the server ended."""
    stream.leave(9.0)

    reading = take(stream, batch(4, "store", 8))

    assert [action for _, action, _, _ in events(reading)] == [BlockAction.STORED, BlockAction.EVICTED]
    assert [*stream.held(9.0)] == []


def test_a_server_that_stays_after_it_left_holds_what_nobody_knows(stream):
    """A new life of it is known again from its first batch on."""
    take(stream, batch(1, "store", 7))
    stream.leave(9.0)
    stream.stays()
    take(stream, batch(2, "store", 8))
    assert stream.stale
    assert not [*stream.held(9.0)]

    assert sample(take(stream, batch(1, "store", 9, incarnation=2))).used_blocks == 1


def test_a_new_life_after_a_farewell_is_held_against_nothing(stream):
    """Whether its registration comes before its first batch or is tried again after it."""
    take(stream, batch(1, "store", 7))
    stream.leave(9.0)

    assert sample(take(stream, batch(1, "store", 9, incarnation=2))).used_blocks == 1


def test_what_a_scan_tells_of_the_pool_is_not_told_again():
    """L1 is the server's own."""
    stream = CoordinatorStream("node-1", "pool", pool_is_scanned=True)

    assert events(take(stream, batch(1, "store", 7, tier="l2"), batch(2, "access", 7))) == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"batches": [{"seq": 1}]}', b"[" * 100_000])
def test_what_is_no_batch_is_refused(body):
    """Whatever it is."""
    with pytest.raises(BadInput):
        decode_batches(body, where="test")


class Listening:
    """A listener and what it posted."""

    def __init__(self, stream, port=0):
        self.posted = []
        self.now = 0.0
        voice = Voice(warn=lambda *_: None, inform=lambda *_: None)
        self.health = Health(
            SOURCE, fresh_seconds=30, since_unix_seconds=0.0, monotonic=lambda: self.now, voice=voice
        )
        self.oddities = Oddities(lambda *_: None, monotonic=lambda: 0.0)
        desk = Desk(
            Ledger("test", self.posted.extend),
            self.oddities,
            clock=lambda: 9.0,
            monotonic=lambda: self.now,
        )
        self.ledger = desk.ledger
        self.listener = CoordinatorListener(stream, self.health, desk, "127.0.0.1", port)

    def ask(self, method, path, **body):
        return httpx.request(method, self.listener.url + path, trust_env=False, timeout=10, **body)


@pytest.fixture
def listening(stream):
    found = Listening(stream)
    yield found
    found.listener.close()


def test_a_servers_whole_life_is_taken_and_answered(listening, requests):
    """It registers, reports, beats and leaves; what it leaves behind in L1 is gone with it."""
    for request in requests:
        answer = listening.ask(request["method"], request["path"], json=request["body"])
        assert answer.status_code == 200
        if request["path"] != "/events":
            assert answer.json()["instance_id"] == "mp-a"

    last = listening.posted[-1]
    assert (last.reason, len(last.block_hashes)) == (EvictionReason.RESTART, 21)
    up = next(s.value for s in listening.health.samples() if s.metric is metrics.SOURCE_UP)
    assert up == 1


def test_what_a_silent_server_holds_is_not_known_until_it_speaks_again(listening):
    """UD-39: no heartbeat for a while is as good as gone; the same life that comes back still has its L1."""

    def used():
        return [s.value for s in listening.ledger.samples() if s.metric is metrics.USED_BYTES]

    listening.listener.look()
    listening.ask("POST", "/events", json={"batches": [batch(1, "store", 7, 8)]})
    listening.now = PATIENCE_SECONDS - 1
    listening.ask("PUT", "/instances/mp-a/heartbeat", json={})
    listening.now += PATIENCE_SECONDS - 1
    listening.listener.look()
    assert used() == [200]

    listening.now += 1
    listening.listener.look()
    assert used() == []
    up = next(s.value for s in listening.health.samples() if s.metric is metrics.SOURCE_UP)
    assert up == 0

    listening.ask("PUT", "/instances/mp-a/heartbeat", json={})
    assert used() == [200]


def test_how_full_l1_was_is_not_shown_once_the_server_left(listening):
    """At once, and not again for its last flush; a server that begins anew is shown."""

    def used():
        return [s.value for s in listening.ledger.samples() if s.metric is metrics.USED_BYTES]

    def tell(*batches):
        listening.ask("POST", "/events", json={"batches": batches})

    tell(batch(1, "store", 7, 8))
    listening.ask("DELETE", "/instances/mp-a")
    assert used() == []
    tell(batch(2, "store", 9))
    assert used() == []

    listening.ask("POST", "/instances", json={"instance_id": "mp-a"})
    tell(batch(1, "store", 9, incarnation=2))
    assert used() == [100]


def test_who_listens_no_more_is_told_nothing_more(listening):
    """LMCache keeps its connection open: its next heartbeat is the next listener's."""
    port = int(listening.listener.url.rpartition(":")[2])
    with httpx.Client(trust_env=False, timeout=10) as server:
        beat = f"{listening.listener.url}/instances/mp-a/heartbeat"
        server.put(beat)
        listening.listener.close()
        following = Listening(CoordinatorStream("node-1", "pool"), port)
        try:
            assert server.put(beat).status_code == 200
            up = next(s.value for s in following.health.samples() if s.metric is metrics.SOURCE_UP)
        finally:
            following.listener.close()

    assert up == 1


def test_events_that_cannot_be_read_are_refused_and_the_next_are_taken(listening):
    """The server counts a refusal and goes on."""
    assert listening.ask("POST", "/events", content=b"nonsense").status_code == 400
    assert listening.ask("POST", "/events", json={"batches": [batch(1, "store", 7)]}).status_code == 200

    assert [entry.block_hashes for entry in listening.posted if isinstance(entry, BlockEvent)] == [(7,)]


def test_what_the_server_never_tells_here_is_found(listening):
    """Lookups are not among it, so loads stay external: the finding says what would tell them."""
    listening.ask("POST", "/events", json={"batches": [batch(1, "store", 7)]})

    found = [s.labels for s in listening.oddities.samples() if s.metric is metrics.FINDING]
    assert [(source, kind) for source, kind, _ in found] == [(str(SOURCE), "lmcache_loads_are_not_split")]


def test_a_port_that_is_taken_is_named(listening, stream):
    """Before anything else starts."""
    port = int(listening.listener.url.rpartition(":")[2])

    with pytest.raises(BadSettings, match="cannot listen here"):
        CoordinatorListener(stream, listening.health, None, "127.0.0.1", port)


@pytest.mark.parametrize("answered", [False, True], ids=["before its answer", "after its answer"])
def test_a_server_that_hangs_up_is_no_fault(listening, monkeypatch, capfd, answered):
    """It is killed while it waits, or later: nothing is printed, and the next one is answered."""
    host, _, port = listening.listener.url.removeprefix("http://").partition(":")
    asked, gone, answer = threading.Event(), threading.Event(), CoordinatorListener.answer

    def slow(*asks):
        asked.set()
        assert gone.wait(30)
        return answer(*asks)

    monkeypatch.setattr(CoordinatorListener, "answer", slow)
    with socket.create_connection((host, int(port))) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # so it ends at once
        caller.sendall(b"PUT /instances/mp-a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert asked.wait(30)
        if answered:
            gone.set()
            assert caller.recv(1 << 16).startswith(b"HTTP/1.1 200")
    gone.set()

    assert listening.ask("PUT", "/instances/mp-a", json={}).status_code == 200
    await_true(lambda: not any("process_request" in one.name for one in threading.enumerate()), "all hung up")
    assert capfd.readouterr().err == ""
