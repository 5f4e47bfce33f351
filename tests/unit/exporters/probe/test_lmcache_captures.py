"""Events recorded in real LMCache servers, translated: the sums of the recordings hold."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fake_lmcache import recorded_events
from tierscope_probe.errors import ErrorCount
from tierscope_probe.lmcache_events import Translator
from tierscope_probe.lmcache_records import FIELDS, RECORDS

CHUNK_TOKENS = 64
CAPTURES = (
    "lmcache/mp_pull/events.jsonl",
    "lmcache/mp_vllm_cpu/events.jsonl",
    "observer/c_lmcache_mp/lmcache_events.jsonl",
    "observer/lmcache_mixed/events.jsonl",
)


class Told:
    """All records of one capture, and sums over them."""

    def __init__(self, path: Path) -> None:
        errors = ErrorCount()
        translator = Translator(errors)
        self.records: list[dict] = []
        self.by_kind: dict[str, list[dict]] = defaultdict(list)
        for each in recorded_events(path):
            if each.event_type.value in translator.handlers:
                self.records += translator.translate(each.event_type.value, each)
        self.records += translator.overdue(float("inf"))
        for record in self.records:
            self.by_kind[record["t"]].append(record)
        self.errors = errors.count

    def sum(self, kind: str, field: str, **which: object) -> int:
        """Sum a field over the records of a kind that have these values."""
        return sum(
            record[field]
            for record in self.by_kind[kind]
            if all(record[name] == value for name, value in which.items())
        )

    def chunks(self, kind: str, **which: object) -> int:
        """Count chunks over the records of a kind that have these values."""
        return sum(
            len(record["chunks"])
            for record in self.by_kind[kind]
            if all(record[name] == value for name, value in which.items())
        )


@pytest.fixture(scope="module")
def told(captures):
    """Return the records of a capture by its name."""
    return {name: Told(captures / name) for name in CAPTURES}


@pytest.fixture(scope="module")
def pull(told):
    """A server alone, 37 requests, L1 of 32 chunks, a directory as L2."""
    return told["lmcache/mp_pull/events.jsonl"]


@pytest.fixture(scope="module")
def under_vllm(told):
    """A server under vLLM, which moves the data itself."""
    return told["lmcache/mp_vllm_cpu/events.jsonl"]


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_event_is_understood(told, capture):
    """No event of a real server costs an error, and every record has the fields of its kind."""
    assert told[capture].errors == 0
    for record in told[capture].records:
        assert tuple(record) == ("t", *RECORDS[record["t"]])
        assert set(record) - {"t"} <= set(FIELDS)


def test_lookups_have_the_servers_sums(pull):
    """9,600 tokens asked in whole chunks; 30 chunks found, 16 in L1 and 14 more in L2."""
    assert len(pull.by_kind["lookup"]) == 37
    assert sum(record["prompt_tokens"] for record in pull.by_kind["lookup"]) == 9970
    assert pull.sum("lookup", "requested_tokens") == 9600
    assert pull.sum("lookup", "hit_tokens") == 1920
    assert (pull.sum("lookup", "l1_hit_tokens"), pull.sum("lookup", "l2_hit_tokens")) == (1024, 896)
    assert (pull.sum("lookup", "l1_hit_keys"), pull.sum("lookup", "l2_hit_keys")) == (16, 14)


def test_lookups_say_what_their_clients_saw(pull, captures):
    """Each request's own hits are those its client was told, and its chain has its chunks."""
    truth = json.loads((captures / "lmcache/mp_pull/truth.json").read_text("utf-8"))["requests"]
    lookups = {record["rid"]: record for record in pull.by_kind["lookup"]}

    for request in truth:
        lookup = lookups[request["request_id"]]
        assert lookup["hit_tokens"] == request["hit_chunks"] * CHUNK_TOKENS
        assert len(lookup["hashes"]) == request["chunks"]
        assert 0 < lookup["end"] - lookup["start"] <= request["lookup_ms"] / 1000


def test_departures_from_l1_are_told_apart(pull):
    """Of 55 chunks that left, 14 were loaded for one read and 41 made room; 23 of 78 are still there."""
    assert pull.chunks("l1_evicted") == pull.sum("l1_evicted", "keys") == 55
    assert pull.chunks("l1_evicted", reason="after_read") == 14
    assert pull.chunks("l1_evicted", reason="capacity") == 41
    assert (pull.chunks("l1_stored", source="store"), pull.chunks("l1_stored", source="load")) == (64, 14)
    assert pull.sum("l1_stored", "bytes") - pull.sum("l1_evicted", "bytes") == 3014656


def test_a_store_that_was_answered_and_not_kept_is_told(pull):
    """56 chunks were refused for want of room, each told with a request whose own transfer kept none."""
    assert pull.chunks("l1_alloc_failed", during="l1_store") == 56
    assert pull.chunks("store_refused", reason="l1_full") == 56
    assert pull.sum("transfer", "keys", direction="store") == 64

    kept = {
        record["rid"]: record["keys"] for record in pull.by_kind["transfer"] if record["direction"] == "store"
    }
    assert {kept[record["rid"]] for record in pull.by_kind["store_refused"]} == {0}
    assert len({record["rid"] for record in pull.by_kind["store_refused"]}) == 14


def test_transfers_pair_their_ends(pull):
    """30 chunks were pulled, each transfer with its bytes and both its times."""
    assert pull.sum("transfer", "keys", direction="retrieve") == 30
    assert pull.sum("transfer", "bytes", direction="retrieve") == 30 * 131072
    assert all(record["start"] <= record["end"] for record in pull.by_kind["transfer"])


def test_l2_tasks_pair_their_ends(pull):
    """64 chunks went to L2 in 17 tasks and 63 were written; 14 came back in 4."""
    assert (len(pull.by_kind["store"]), len(pull.by_kind["load"])) == (17, 4)
    assert (pull.sum("store", "keys"), pull.sum("store", "stored_keys")) == (64, 64)
    assert pull.sum("l2_stored", "bytes") == 8257536
    assert pull.sum("load", "keys") == pull.sum("load", "loaded_keys") == 14
    for record in pull.by_kind["store"] + pull.by_kind["load"]:
        assert record["bytes"] == record["keys"] * 131072
        assert record["start"] < record["end"]


@pytest.mark.parametrize("capture", CAPTURES[:3])
def test_loads_belong_to_the_lookups_that_waited_for_them(told, capture):
    """Every load is within a lookup of its request, which found as many keys in L2."""
    records = told[capture].by_kind
    for load in records["load"]:
        found = [
            lookup
            for lookup in records["lookup"]
            if lookup["rid"] == load["rid"]
            and lookup["start"] <= load["start"] <= load["end"] <= lookup["end"]
        ]
        assert [lookup["l2_hit_keys"] for lookup in found] == [load["loaded_keys"]]


def test_engine_driven_transfer_has_the_servers_sums(under_vllm):
    """The engine moves the data, so there is no transfer; all else is told."""
    assert under_vllm.sum("lookup", "hit_tokens") == 2048
    assert (under_vllm.sum("lookup", "l1_hit_tokens"), under_vllm.sum("lookup", "l2_hit_tokens")) == (
        768,
        1280,
    )
    assert (
        under_vllm.chunks("l1_stored", source="store"),
        under_vllm.chunks("l1_stored", source="load"),
    ) == (34, 20)
    assert under_vllm.chunks("l1_evicted", reason="after_read") == 20
    assert under_vllm.chunks("l1_evicted", reason="capacity") == 19
    assert under_vllm.chunks("l1_stored") - under_vllm.chunks("l1_evicted") == 15
    assert not under_vllm.by_kind["transfer"]


def test_departures_keep_their_place_among_arrivals(told):
    """Although reasons come later, a reader never sees a chunk leave that is not there."""
    for capture in CAPTURES[:3]:
        present: set[tuple] = set()
        for record in told[capture].records:
            if record["t"] == "l1_stored":
                assert not present & set(record["chunks"])
                present |= set(record["chunks"])
            elif record["t"] == "l1_evicted":
                assert set(record["chunks"]) <= present
                present -= set(record["chunks"])


def test_joined_with_the_engines_own_records_external_is_l1_and_l2(told, captures):
    """k-th admission with k-th lookup: first ones loaded 1,472 tokens from L2, later ones 736 from L1."""
    lookups = {(each["rid"], each["k"]): each for each in told[CAPTURES[2]].by_kind["lookup"]}
    lines = (captures / "observer/c_lmcache_mp/records.jsonl").read_text("utf-8").splitlines()
    admissions = [record for record in map(json.loads, lines) if record["t"] == "admit"]
    used: dict[bool, list[int]] = {True: [0, 0], False: [0, 0]}
    without_lookup = []

    for admission in admissions:
        lookup = lookups.get((admission["rid"], admission["attempt"]))
        if lookup is None:
            without_lookup.append(admission)
            continue
        local, external = admission["local"], admission["external"]
        from_l1 = max(0, min(lookup["l1_hit_tokens"], local + external) - local)
        used[admission["attempt"] == 0][0] += from_l1
        used[admission["attempt"] == 0][1] += external - from_l1

    assert used[True] == [0, 1472]
    assert used[False] == [736, 0]
    assert [admission["skip"] for admission in without_lookup] == [True]


def test_a_prompt_can_be_split_inside(told):
    """req-0016 has 4 chunks in L1 and one more in L2."""
    lookups = {record["rid"]: record for record in told[CAPTURES[3]].by_kind["lookup"]}

    assert (lookups["req-0016"]["l1_hit_tokens"], lookups["req-0016"]["l2_hit_tokens"]) == (256, 64)
    assert len(lookups) == 30
