"""From single events of LMCache's bus to records: what pairs with what, and what belongs to whom."""

from __future__ import annotations

import pytest

from tests.fake_lmcache import Key, event, keys
from tierscope_probe.errors import ErrorCount
from tierscope_probe.lmcache_events import Translator
from tierscope_probe.lmcache_lookups import Sessions

HASHES = {
    "a": [key.chunk_hash for key in keys("0", "a1", "a2")],
    "b": [key.chunk_hash for key in keys("0", "b1")],
}


class Desk:
    """A translator, and short ways to say what happens in a server."""

    def __init__(self, **options: object) -> None:
        self.errors = ErrorCount()
        self.translator = Translator(self.errors, **options)

    def hear(self, name: str, at: float = 0.0, session: str = "", **metadata: object) -> list[dict]:
        return self.translator.translate(name, event(name, at, session, **metadata))

    def look_up(self, session: str, prompt: str, at: float = 1.0) -> None:
        self.hear("mp.lookup_prefetch.start", at, session)
        self.hear("mp.lookup", at, session, chunk_hashes=HASHES[prompt], seq_len=200)

    def answer(self, session: str, at: float = 2.0, **said: object) -> dict:
        answer = {
            "requested_tokens": 192,
            "hit_tokens": 128,
            "l1_hit_tokens": 64,
            "l2_hit_tokens": 64,
            "l1_hit_keys": 1,
            "l2_hit_keys": 1,
            "early_exit_reason": "",
            "model_name": "tiny",
            "cache_salt": "",
        }
        (record,) = self.hear("mp.lookup_prefetch.end", at, session, **{**answer, **said})
        return record

    def load(self, request: int, *chunks: str, adapter: int = 0, known: bool = False) -> list[dict]:
        """Load chunks for one of LMCache's own requests; `known`: another load was faster."""
        task = {"request_id": request, "adapter_index": adapter, "task_id": request, "l2_name": "fs"}
        self.hear("l2.load_task.submitted", 1.1, **task, key_count=len(chunks), total_bytes=10)
        if known:
            self.hear("l1.read.reserved", 1.2, l1_tag="", keys=keys(*chunks))
        loaded = [] if known else keys(*chunks)
        self.hear("l1.write_finished_and_read_reserved", 1.2, l1_tag="", keys=loaded, meta=[])
        early = self.hear("l2.load_task.completed", 1.3, **task)
        counted = {"request_id": request, "loaded_count": len(chunks), "failed_count": 0}
        return early + self.hear("l2.prefetch.load.completed", 1.3, **counted)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_lookup_is_told_when_it_ends(desk):
    """Who, how often before, what was asked and found, from when to when."""
    desk.look_up("r1", "a")

    record = desk.answer("r1")

    assert (record["rid"], record["k"], record["start"], record["end"]) == ("r1", 0, 1.0, 2.0)
    assert (record["prompt_tokens"], record["requested_tokens"], record["hit_tokens"]) == (200, 192, 128)
    assert record["hashes"] == HASHES["a"]


def test_lookups_of_a_session_are_counted_by_their_ends(desk):
    """A preempted request looks up again; one that is given up is no lookup."""
    desk.look_up("r1", "a")
    assert desk.answer("r1")["k"] == 0

    desk.look_up("r1", "a")
    desk.look_up("r1", "b", at=5.0)
    record = desk.answer("r1", at=6.0)

    assert (record["k"], record["start"], record["hashes"]) == (1, 5.0, HASHES["b"])


def test_an_ended_request_is_forgotten(desk):
    """Its id may come again, as another request."""
    desk.look_up("r1", "a")
    desk.answer("r1")
    desk.hear("mp.request.end", 3.0, "r1")

    desk.look_up("r1", "a")

    assert desk.answer("r1")["k"] == 0


def test_an_answer_may_follow_the_end_of_its_request(desk):
    """A lookup that still ran then keeps its beginning and its number."""
    desk.look_up("r1", "a")
    desk.answer("r1")
    desk.look_up("r1", "a", at=3.0)
    desk.hear("mp.request.end", 4.0, "r1")

    record = desk.answer("r1", at=5.0)

    assert (record["k"], record["start"]) == (1, 3.0)


def test_a_lookup_that_left_early_has_no_chain(desk):
    """The reason is LMCache's own word."""
    desk.hear("mp.lookup_prefetch.start", 1.0, "r1")

    record = desk.answer("r1", early_exit_reason="no_gpu_context")

    assert (record["early_exit"], record["hashes"], record["prompt_tokens"]) == ("no_gpu_context", [], None)


def test_salts_leave_as_keyed_digests():
    """Equal salts have equal digests under one key and others under another; the salt is nowhere."""
    records = []
    for salt_key in (b"one", b"one", b"two"):
        desk = Desk(salt_key=salt_key)
        desk.look_up("r1", "a")
        records.append(desk.answer("r1", cache_salt="secret-salt"))

    assert records[0]["salt"] == records[1]["salt"] != records[2]["salt"]
    assert "secret-salt" not in repr(records)


def test_a_load_is_for_the_lookup_that_asked_for_its_chunks(desk):
    """LMCache numbers loads by itself; what was loaded tells whose it is."""
    desk.look_up("r1", "a")
    desk.look_up("r2", "b")

    (record,) = desk.load(7, "0", "b1")

    assert (record["rid"], record["request"], record["loaded_keys"]) == ("r2", 7, 2)
    assert (record["start"], record["end"]) == (1.1, 1.3)


def test_loads_of_one_chunk_are_for_the_lookups_in_their_order(desk):
    """Equal prompts at once: LMCache numbers lookups in turn, whenever their loads end."""
    for session in ("r0", "r1", "r2"):
        desk.look_up(session, "a")

    loads = (
        desk.load(2, "0", "a1") + desk.load(0, "0", "a1", known=True) + desk.load(1, "0", "a1", known=True)
    )

    assert [record["rid"] for record in loads] == ["r2", "r0", "r1"]


def test_both_adapters_of_a_lookup_load_for_it(desk):
    """Each has a task of its own under one number."""
    desk.look_up("r0", "a")
    desk.look_up("r1", "a")

    loads = desk.load(1, "0") + desk.load(1, "a1", adapter=1)

    assert [(record["rid"], record["adapter"]) for record in loads] == [("r1", 0), ("r1", 1)]


def test_numbers_that_others_used_up_are_noticed(desk):
    """Prefetches over HTTP are numbered too; a load for the only lookup that waits tells how many."""
    desk.look_up("r0", "b")
    desk.load(10, "b1")
    desk.look_up("r1", "a")
    desk.look_up("r2", "a")

    loads = desk.load(12, "a1") + desk.load(11, "a1", known=True)

    assert [record["rid"] for record in loads] == ["r2", "r1"]


def test_a_load_nobody_waits_for_has_no_request(desk):
    """Prefetches asked for over HTTP have no session."""
    desk.look_up("r1", "b")

    (record,) = desk.load(7, "other")

    assert record["rid"] is None


def test_a_load_whose_count_never_came_is_told_in_the_end(desk):
    """Before the next load of that request, or at the close."""
    task = {"request_id": 1, "adapter_index": 0, "task_id": 1, "l2_name": "fs"}
    desk.hear("l2.load_task.submitted", 1.0, **task, key_count=3, total_bytes=10)
    assert desk.hear("l2.load_task.completed", 2.0, **task) == []

    (record,) = desk.translator.overdue(float("inf"))

    assert (record["keys"], record["loaded_keys"]) == (3, None)


def test_a_failed_store_says_so(desk):
    """Keys asked, keys written, bytes written."""
    task = {"adapter_index": 0, "task_id": 5, "l2_name": "fs"}
    desk.hear("l2.store.submitted", 1.0, **task, key_count=4, total_bytes=400)
    failed = {"succeeded_count": 0, "failed_count": 4, "bytes_transferred": 0}

    (record,) = desk.hear("l2.store.completed", 2.0, **task, **failed)

    assert (record["keys"], record["stored_keys"], record["failed_keys"]) == (4, 0, 4)
    assert (record["bytes"], record["written_bytes"], record["start"], record["end"]) == (400, 0, 1.0, 2.0)


def test_an_end_without_its_beginning_is_told_without_its_start(desk):
    """The probe came later, or the bus lost the beginning."""
    done = {"succeeded_count": 4, "failed_count": 0, "bytes_transferred": 400}

    (record,) = desk.hear("l2.store.completed", 2.0, adapter_index=0, task_id=5, l2_name="fs", **done)

    assert (record["start"], record["bytes"], record["keys"]) == (None, None, 4)


def test_a_refused_store_is_told_with_the_request_that_wanted_it(desk):
    """LMCache names only the chunks; one live request asked for the last of them."""
    desk.look_up("r1", "a")
    desk.look_up("r2", "b")

    records = desk.hear("l1.allocation.failed", 3.0, during="l1_store", keys=keys("0", "a1"))

    failed, refused = records
    assert (failed["t"], failed["keys"]) == ("l1_alloc_failed", 2)
    assert (refused["t"], refused["rid"], refused["reason"]) == ("store_refused", "r1", "l1_full")


def test_a_refused_store_of_shared_chunks_names_nobody(desk):
    """Two live requests asked for them, and nothing tells which one stored."""
    desk.look_up("r1", "a")
    desk.look_up("r2", "b")

    _, refused = desk.hear("l1.allocation.failed", 3.0, during="l1_store", keys=keys("0"))

    assert refused["rid"] is None


def test_a_write_that_ends_too_late_is_refused_too(desk):
    """Its reservation had expired."""
    assert desk.hear("sm.write.finished", 3.0, succeeded_keys=keys("a1"), failed_keys=[]) == []

    (record,) = desk.hear("sm.write.finished", 3.0, succeeded_keys=[], failed_keys=keys("a1"))

    assert (record["t"], record["reason"]) == ("store_refused", "expired")


def test_objects_of_two_models_are_told_apart(desk):
    """Chunk hashes do not know the model."""
    both = [*keys("a"), *keys("a", model="other")]

    records = desk.hear("l2.prefetch.failed", 1.0, reason="l1_oom", keys=both)

    assert [(record["model"], record["keys"]) for record in records] == [("tiny", 1), ("other", 1)]


@pytest.mark.parametrize(
    ("name", "metadata", "told"),
    [
        (
            "l1.read.failed",
            {"during": "l2_store", "reason": "not_found", "keys": keys("a")},
            "l1_read_failed",
        ),
        ("l2.keys.deleted", {"keys": keys("a"), "backend": "fs", "shared": True}, "l2_removed"),
        ("l2.keys.evicted", {"key_count": 3}, "l2_evicted"),
    ],
)
def test_what_is_said_once_is_told_once(desk, name, metadata, told):
    """Events that pair with nothing."""
    (record,) = desk.hear(name, 1.0, **metadata)

    assert record["t"] == told


def test_an_event_that_cannot_be_read_costs_itself_alone(desk):
    """It is counted, and the next one is read."""
    assert desk.hear("l2.keys.evicted", 1.0) == []

    assert desk.errors.count == 1
    assert len(desk.hear("l2.keys.evicted", 1.0, key_count=1)) == 1


def test_forgotten_sessions_bound_the_memory():
    """When ends never come the oldest sessions go."""
    sessions = Sessions(most_sessions=2)
    for number in range(3):
        sessions.started(f"r{number}", 1.0)
        sessions.asked(f"r{number}", [Key(b"%032d" % number).chunk_hash], 64)

    assert sessions.stores(b"%08d" % 0) is None
    assert sessions.stores(b"%08d" % 2) == "r2"
