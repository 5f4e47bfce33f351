"""What the recorded captures hold, as the bytes a reader gets."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tests.fake_lmcache import recorded_events
from tierscope.domain.identity import EngineId
from tierscope.domain.settings import EngineSettings
from tierscope_probe.errors import ErrorCount
from tierscope_probe.hashes import DeltaEncoder
from tierscope_probe.lmcache_events import Translator
from tierscope_probe.lmcache_records import Writer

ENGINE = EngineId("serving", "chat", "pod-0", 0)
ENGINE_SETTINGS = EngineSettings(
    namespace=ENGINE.namespace, endpoint=ENGINE.endpoint, replica=ENGINE.replica, rank=ENGINE.rank
)
"""Who it is; where it is read is each test's own."""


def hook_payloads(run: Path) -> list[bytes]:
    """The payloads a hook wrote in one observer run, in order."""
    data = (run / "records.msgpack").read_bytes()
    payloads = []
    while data:
        size = int.from_bytes(data[:4], "big")
        payloads.append(data[4 : 4 + size])
        data = data[4 + size :]
    return payloads


def event_payloads(path: Path) -> list[bytes]:
    """The payloads of a recorded KV-event stream, in order."""
    lines = path.read_text("utf-8").splitlines()
    return [b64decode(json.loads(line)["frames_b64"][-1]) for line in lines]


def expected(run: Path) -> dict:
    """The sums counted from a run's own files."""
    return json.loads((run / "expected.json").read_text("utf-8"))


def lmcache_payloads(path: Path, *, chunk_tokens: int = 64, records_each: int = 16) -> list[bytes]:
    """What the probe in an LMCache server would have sent of its recorded events, statistics at the end."""
    records = list(lmcache_records(path, chunk_tokens))
    encoder = DeltaEncoder()
    for record in records:
        if "hashes" in record:
            record["hashes"] = encoder.encode(record["hashes"])
    starts = range(0, len(records), records_each)
    return [msgspec.msgpack.encode(records[start : start + records_each]) for start in starts]


def lmcache_records(path: Path, chunk_tokens: int = 64) -> Iterator[dict[str, object]]:
    """The records that the probe in an LMCache server would have made of its recorded events."""
    translator, write = Translator(ErrorCount()), Writer().write
    events = list(recorded_events(path))
    yield write("hello", events[0].timestamp, "lmcache_mp", "recorded", 7, chunk_tokens, "blake3", [], {})
    for event in events:
        if event.event_type.value in translator.handlers:
            yield from translator.translate(event.event_type.value, event)
    yield from translator.overdue(float("inf"))
    for after_seconds in (10.0, 20.0):
        at = events[-1].timestamp + after_seconds
        yield write("stats", at, len(events), 1_000, 0, 0, 0, 1_000, 0, 0, 0, 0.0)


def admissions_of_lookups(path: Path, traceparents: Mapping[str, str]) -> list[bytes]:
    """Hook records derived from a run of a server that a client asked in place of an engine.

    Each was admitted when its lookup was answered, loaded all that was found, and had its first token half a
    second later. `traceparents` are their callers' by request.
    """
    payloads = []
    for lookup in (record for record in lmcache_records(path) if record["t"] == "lookup"):
        rid, asked_at, at = str(lookup["rid"]), lookup["start"], lookup["end"]
        assert isinstance(asked_at, float)
        assert isinstance(at, float)
        admit = {"t": "admit", "ts": at, "rid": rid, "attempt": 0, "prompt": lookup["prompt_tokens"]}
        admit |= {"lookups": 1, "local": 0, "external": lookup["hit_tokens"], "arrival": asked_at}
        admit["trace"] = {"traceparent": traceparents[rid]}
        first = {"t": "first", "ts": at + 0.5, "rid": rid, "ttft_s": at + 0.5 - asked_at}
        payloads.append(msgspec.msgpack.encode([admit, first]))
    return payloads


def admissions_under_lmcache(folder: Path) -> list[bytes]:
    """Hook records derived from a run of vLLM in front of LMCache that had no hook.

    Prompts and cached tokens are what the engine answered, times those of its block allocations. Whose the
    cached tokens were follows from the step: the engine still held what was asked `again` and `l0_again`;
    `old` and `grow` come back after others took their blocks. These sum to the engine's own counters.
    """
    told = json.loads((folder / "truth.json").read_text("utf-8"))
    allocated = [
        (event["timestamp"], event["metadata"]["records"][0]["req_id"])
        for event in map(json.loads, (folder / "events.jsonl").read_text("utf-8").splitlines())
        if event["event_type"] == "mp.vllm.block_allocation"
    ]
    hello = {"t": "hello", "ts": 0.0, "block_size": told["block_size"], "model": "tiny-llama-random"}
    payloads = [msgspec.msgpack.encode([hello])]
    for request, (at, rid) in zip(told["requests"], allocated, strict=True):
        cached = request["num_cached_tokens"]
        local = cached if request["step"] in ("again", "l0_again") else 0
        admit = {"t": "admit", "ts": at, "rid": rid, "attempt": 0, "prompt": request["prompt_tokens"]}
        admit |= {"local": local, "external": cached - local, "arrival": at}
        payloads.append(msgspec.msgpack.encode([admit, {"t": "first", "ts": request["t"], "rid": rid}]))
    return payloads
