"""The observer, given the calls behind the records of real engines, makes those records again."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fake_engine import FakePrefillStats, FakeRequest
from tierscope_probe.errors import ErrorCount
from tierscope_probe.observer import Observer

PRIVATE = ("salt", "session")
"""Fields that were recorded in the clear and are digests now."""


class Replay:
    """Calls an observer as the engine must have called the recorder."""

    def __init__(self) -> None:
        self.now = 0.0
        self.drafts: list[tuple] = []
        self.requests: dict[str, FakeRequest] = {}
        self.errors = ErrorCount()
        self.observer = Observer(
            self.drafts.append, unit_tokens=32, errors=self.errors, clock=lambda: self.now
        )

    def play(self, record: dict) -> None:
        getattr(self, f"_{record['t']}", lambda _: None)(record)

    def _admit(self, record: dict) -> None:
        asked = self.requests.get(record["rid"])
        if asked is None:
            asked = self.requests[record["rid"]] = FakeRequest(
                record["rid"],
                record["prompt"],
                [bytes.fromhex(block_hash) for block_hash in record["hashes"]],
                arrival_time=record["arrival"],
                skip_reading_prefix_cache=record["skip"],
                cache_salt=record["salt"],
                session_id=record["session"],
                trace_headers=record["trace"],
            )
        asked.num_output_tokens = record["total"] - record["prompt"]
        asked.num_preemptions = record["attempt"]
        asked.prefill_stats = FakePrefillStats(*record["ps"]) if "ps" in record else None
        self.now = record["ts"] - record["lookup_wait_s"]
        for number in range(record["lookups"]):
            offered = None if number < record["undecided"] else record["offered"]
            self.observer.looked_up(asked, record["local"], (offered, record["async"]), self.now)
        self.now = record["ts"]
        split = (lambda *_: record["split"]) if record.get("split") else None
        self.observer.allocated(asked, record["external"], split)

    def _loaded(self, record: dict) -> None:
        self.now = record["ts"]
        self.observer.allocated(self.requests[record["rid"]], 0)

    def _first(self, record: dict) -> None:
        self.now = record["ts"]
        asked = self.requests[record["rid"]]
        asked.prefill_stats = None
        self.observer.stepped()

    def _finish(self, record: dict) -> None:
        self.now = record["ts"]
        asked = self.requests.get(record["rid"]) or FakeRequest(record["rid"], record["prompt"])
        asked.num_output_tokens = record["out"]
        asked.num_preemptions = record["preemptions"]
        asked.status = record["status"]
        asked.block_hashes = [b""] * record["hashes_total"]
        if record["admitted"] and asked.prefill_stats is not None and record["out"] == 0:
            asked.prefill_stats = FakePrefillStats(record["prompt"])
        self.observer.finished(asked)


def recorded(folder: Path) -> list[dict]:
    lines = (folder / "records.jsonl").read_text("utf-8").splitlines()
    return [record for line in lines if (record := json.loads(line))["t"] not in ("hello", "stats")]


def as_recorded(value: object) -> object:
    """A record of ours, or a part of it, as the captures write theirs."""
    if isinstance(value, dict):
        return {key: as_recorded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_recorded(part) for part in value]
    return value.hex() if isinstance(value, bytes) else value


def expected(record: dict) -> dict:
    """A recorded record, to compare: times to the microsecond, private texts not at all."""
    return {
        key: pytest.approx(value, abs=2e-6) if isinstance(value, float) else value
        for key, value in record.items()
        if key not in PRIVATE
    }


@pytest.mark.parametrize("capture", ["a_alone", "b_offloading", "c_lmcache_mp"])
def test_real_calls_make_the_recorded_records(captures, capture):
    """Order, kinds and every field agree with what was recorded inside a real engine."""
    theirs = recorded(captures / "observer" / capture)
    replay = Replay()

    for record in theirs:
        replay.play(record)

    ours = [as_recorded(build(*values)) for build, values in replay.drafts]
    assert replay.errors.count == 0
    assert len(ours) == len(theirs)
    for our, their in zip(ours, map(expected, theirs), strict=True):
        assert {key: our.get(key) for key in their} == their


def test_digests_keep_what_salts_tell_apart(captures):
    """As many salts and sessions as were recorded, each always under the same digest."""
    theirs = recorded(captures / "observer" / "a_alone")
    replay = Replay()
    for record in theirs:
        replay.play(record)

    ours = {(record["rid"], record.get("attempt")): record for record in (b(*v) for b, v in replay.drafts)}
    for field in PRIVATE:
        digests = defaultdict(set)
        for record in theirs:
            if record["t"] == "admit" and record.get(field) is not None:
                digests[record[field]].add(ours[record["rid"], 0][field])
        assert digests
        assert all(len(found) == 1 for found in digests.values())
        assert len(set.union(*digests.values())) == len(digests)
