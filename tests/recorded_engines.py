"""What real engines were asked and what their tiers had of it, as a trace that a simulator can replay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.captured import lmcache_records
from tierscope.domain.requests import TokenSplit
from tierscope.domain.split import Split
from tierscope.domain.trace import Trace
from tierscope.domain.window import RequestWindow

Record = Mapping[str, object]
FEWEST_TOKENS = 4
"""Of an answer that tells how long a step took."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A request's first admission: when it came, what it asked, how much it said, and who had its prompt.

    `session` is None where its next prompt does not repeat what it was answered.
    """

    request_id: str
    arrived_unix_seconds: float
    block_hashes: tuple[object, ...]
    output_tokens: int
    tokens: TokenSplit
    session: str | None = None


def trace_of(admissions: Sequence[Admission], block_tokens: int, looked_unix_seconds: float = 0.0) -> Trace:
    """The trace of admissions in order of their arrival.

    Simulated eviction loops look at whole seconds: those of `looked_unix_seconds`, a time at which the real
    one looked.
    """
    names: dict[object, int] = {}
    sessions: dict[str | None, int] = {None: -1}
    lengths = [len(one.block_hashes) for one in admissions]
    arrived = np.array([one.arrived_unix_seconds for one in admissions])
    began = np.floor(arrived.min() - looked_unix_seconds) - 1 + looked_unix_seconds
    return Trace(
        name="recorded",
        block_tokens=block_tokens,
        at_ms=((arrived - began) * 1000).astype(np.int64),
        input_tokens=np.array([one.tokens.prompt for one in admissions], np.int64),
        output_tokens=np.array([one.output_tokens for one in admissions], np.int64),
        session=np.array(
            [sessions.setdefault(one.session, len(sessions) - 1) for one in admissions], np.int32
        ),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        block_ids=np.array(
            [names.setdefault(name, len(names)) for one in admissions for name in one.block_hashes], np.int32
        ),
    )


def split_of(admissions: Sequence[Admission]) -> Split:
    """What the engines' tiers had of each prompt."""
    return Split(
        *(
            np.array([getattr(one.tokens, part) for one in admissions], np.int64)
            for part in ("l0", "l1", "l2", "computed")
        )
    )


def points_off(replayed: Split, real: Split) -> dict[str, float]:
    """How many percentage points each tier's share of all prompt tokens is off; above 0, too many."""
    prompt = int(sum(real).sum())
    return {
        tier: 100 * int((getattr(replayed, tier) - getattr(real, tier)).sum()) / prompt
        for tier in ("l0", "l1", "l2")
    }


def admissions_of(
    engine: Sequence[Record], cache: Sequence[Record] = (), *, echoed: bool = False
) -> list[Admission]:
    """First admissions that reached their first token, by arrival, from the records of both probes.

    `echoed`: whether clients repeat answers in their sessions' next prompts, word by word.
    """
    first = {record["rid"] for record in engine if record["t"] == "first"}
    said = {record["rid"]: record["out"] for record in engine if record["t"] == "finish"}
    found = {record["rid"]: record for record in cache if record["t"] == "lookup" and record["k"] == 0}
    told = [
        Admission(
            str(record["rid"]),
            float(record["arrival"]),
            tuple(record["hashes"] or ()),
            int(said[record["rid"]]),
            _tokens(record, found.get(record["rid"])),
            record["session"] if echoed else None,
        )
        for record in engine
        if record["t"] == "admit" and record["attempt"] == 0 and record["rid"] in first
    ]
    return sorted(told, key=lambda one: one.arrived_unix_seconds)


def stored_admissions(window: RequestWindow, engine: Sequence[Record]) -> list[Admission]:
    """What a store has of one engine's requests, whose clients repeat answers word by word; by arrival.

    A store does not keep how long an answer was: that is the engine's record of its end.
    """
    said = {record["rid"]: int(record["out"]) for record in engine if record["t"] == "finish"}
    admitted = {record["ts"]: str(record["rid"]) for record in engine if record["t"] == "admit"}
    told = []
    for request, at in enumerate(window.at_unix_seconds.tolist()):
        rid, first, end = admitted[at], window.offsets[request], window.offsets[request + 1]
        split = TokenSplit(
            *(int(part[request]) for part in (window.prompt, window.l0, window.l1, window.l2)),
            external=int(window.external[request]),
            computed=int(window.computed[request]),
        )
        session = int(window.session[request])
        told.append(
            Admission(
                rid,
                at - float(window.queue_seconds[request]),
                tuple(window.block_hashes[first:end].tolist()),
                said[rid],
                split,
                str(session) if session else None,
            )
        )
    return sorted(told, key=lambda one: one.arrived_unix_seconds)


def step_seconds(engine: Sequence[Record]) -> float:
    """How long an engine's step took, in the median answer: each step is a token of it."""
    first = {record["rid"]: float(record["ts"]) for record in engine if record["t"] == "first"}
    ended = [record for record in engine if record["t"] == "finish" and record["rid"] in first]
    return float(
        np.median(
            [
                (one["ts"] - first[one["rid"]]) / (one["out"] - 1)
                for one in ended
                if one["out"] > FEWEST_TOKENS
            ]
        )
    )


def captured(run: Path) -> tuple[list[Record], list[Record]]:
    """The records of both probes in a captured run; none of the cache server where there was none."""
    lines = (run / "records.jsonl").read_text("utf-8").splitlines()
    events = run / "lmcache_events.jsonl"
    cache = list(lmcache_records(events)) if events.exists() else []
    return [json.loads(line) for line in lines], cache


def stored_run(path: Path) -> tuple[list[Admission], dict[str, float]]:
    """What a store had of a captured run, and the sizes and times that its servers had."""
    document = json.loads(path.read_text("utf-8"))
    admissions = [
        Admission(
            **{**one, "block_hashes": tuple(one["block_hashes"]), "tokens": TokenSplit(**one["tokens"])}
        )
        for one in document.pop("admissions")
    ]
    return admissions, document


def looked(cache: Sequence[Record]) -> float:
    """When a cache server's eviction loop first dropped something for want of room."""
    return next(
        float(record["ts"])
        for record in cache
        if record["t"] == "l1_evicted" and record["reason"] == "capacity"
    )


def _tokens(admission: Record, lookup: Record | None) -> TokenSplit:
    """Of what a lookup found in L1, the engine loaded the part beyond its own; the rest was from L2."""
    prompt, local, external = (int(admission[name]) for name in ("prompt", "local", "external"))
    in_l1 = int(lookup["l1_hit_tokens"]) if lookup else 0
    l1 = max(min(in_l1, local + external) - local, 0) if external else 0
    return TokenSplit(prompt, l0=local, l1=l1, l2=external - l1, computed=prompt - local - external)
