"""What a few engines said for a while, as frames that are sent again and again as if it were new.

The testbed's model serves the traffic beforehand. Each frame remembers where in it times, request ids and
block hashes stand, so that sending it once more costs a copy and three patches, and every cycle has requests
and blocks of its own. A cycle's last answers come in the next one, as its blocks leave the cache there: what
is added up over whole cycles is exact.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import numpy.typing as npt

from tierscope.domain.requests import TokenSplit
from tierscope.testbed.config import Mix, ServiceTimes, TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.model.l0 import BlockChange, Removed, Stored
from tierscope.testbed.wire.events import EventEncoder
from tierscope.testbed.wire.records import Record, RecordWriter
from tierscope.testbed.wire.tally import Tally
from tierscope.testbed.wire.vllm_page import EngineFacts, vllm_page
from tierscope.testbed.workload.mixed import MixedWorkload

Offsets = npt.NDArray[np.int64]

STEP_SECONDS = 0.1
MOST_PROMPT_TOKENS = 8_000
DRAIN_SECONDS = 5.0
"""Longer than any answer takes."""
PAGE_SECONDS = 1.0
REPLICAS = 4
"""Engines with a recording of their own."""
TAG_DIGITS = 8
_EIGHT, _TAG = np.arange(8), np.arange(TAG_DIGITS)

CONFIG = TestbedConfig(
    replicas=REPLICAS,
    l0_bytes=24 * 2**30,
    l1_bytes=32 * 2**30,
    slots=128,
    step_seconds=STEP_SECONDS,
    cache_probe=False,
    service=ServiceTimes(
        fixed_seconds=0.02,
        prefill_seconds_per_token=5e-6,
        attention_seconds_per_token_pair=0.0,
        decode_seconds_per_token=0.002,
    ),
    mix=Mix(
        agents_per_second=1.0, chats_per_second=40.0, documents_per_second=14.5, unrelated_per_second=5.0
    ),
)
"""Fast engines: what is looked at is who listens to them. About twenty requests a second each."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message's payload and what in it is not the same the next time."""

    payload: bytes
    times_at: Offsets
    times: npt.NDArray[np.float64]
    """Seconds since the cycle began."""
    ids_at: Offsets
    hashes_at: Offsets

    def played(self, *, began_unix_seconds: float, key: int, tag: int) -> bytes:
        """The payload for a cycle: `key` makes its blocks others, `tag` its requests."""
        data = np.frombuffer(bytearray(self.payload), dtype=np.uint8)
        times = (self.times + began_unix_seconds).astype(">f8").view(np.uint8).reshape(-1, 8)
        data[self.times_at[:, None] + _EIGHT] = times
        data[self.ids_at[:, None] + _TAG] = np.frombuffer(f"{tag:0{TAG_DIGITS}x}".encode(), dtype=np.uint8)
        data[self.hashes_at + 2] ^= key >> 8 & 0xFF
        data[self.hashes_at + 3] ^= key & 0xFF
        return data.tobytes()


@dataclass(slots=True)
class Recording:
    """What one engine said: frames by step, its page by second, and what all of it adds up to."""

    cycle_seconds: float
    hook: list[Frame | None] = field(default_factory=list)
    events: list[Frame | None] = field(default_factory=list)
    pages: list[list[tuple[str, float, bool]]] = field(default_factory=list)
    """Lines of the page: the words before a value, the value, and whether it grows with every cycle."""
    tokens: TokenSplit = field(default_factory=lambda: TokenSplit(0, computed=0))
    requests: int = 0
    block_events: int = 0

    def page(self, elapsed_seconds: float, *, began_unix_seconds: float) -> bytes:
        """The page so long after the first cycle began: every cycle so far, as far as it has come."""
        cycles = int(elapsed_seconds // self.cycle_seconds)
        ended = max(0, cycles - 2)
        parts = [elapsed_seconds - cycle * self.cycle_seconds for cycle in range(ended, cycles + 1)]
        shown = [self.pages[min(int(part / PAGE_SECONDS), len(self.pages) - 1)] for part in parts]
        lines = []
        for number, (words, value, grows) in enumerate(self.pages[-1]):
            if words.endswith("_created") or "_created{" in words or words.startswith("process_start"):
                told = began_unix_seconds
            elif grows:
                told = ended * value + sum(page[number][1] for page in shown)
            else:
                told = shown[-1][number][1]
            lines.append(f"{words} {told!r}")
        return "\n".join([*lines, ""]).encode()


class _Ear:
    """Hears an engine through the testbed's own writer, with request ids of one length."""

    def __init__(self, index: int, cycle_seconds: float) -> None:
        self.records: list[Record] = []
        self.writer = RecordWriter(
            self.records.append,
            epoch_unix_seconds=0.0,
            model=CONFIG.model,
            block_tokens=CONFIG.block_tokens,
            blocks=CONFIG.l0_blocks,
            tier_split=True,
        )
        self.recording = Recording(cycle_seconds)
        self.tally = Tally()
        self._index = index
        self._ids: dict[str, str] = {}
        self._encode = EventEncoder(CONFIG.block_tokens).encode
        self.held: dict[int, int] = {}

    def end_step(self, changes: Sequence[BlockChange], at_seconds: float) -> None:
        """Make the frames of a step."""
        records = [self._with_id(record) for record in self.records]
        self.records.clear()
        self.tally.read(records)
        self.recording.requests += sum(one["t"] == "admit" and one["attempt"] == 0 for one in records)
        self.recording.hook.append(frame_of_records(records))
        self.recording.events.append(self._events(changes, at_seconds))

    def _with_id(self, record: Record) -> Record:
        if "rid" not in record:
            return record
        name = self._ids.setdefault(
            str(record["rid"]), f"{self._index}{len(self._ids):07x}-{0:0{TAG_DIGITS}x}"
        )
        return {**record, "rid": name}

    def _events(self, changes: Sequence[BlockChange], at_seconds: float) -> Frame | None:
        for change in changes:
            sign = 1 if isinstance(change, Stored) else -1
            for value in change.hashes:
                self.held[value] = self.held.get(value, 0) + sign
            self.recording.block_events += len(change.hashes)
        return frame_of_events(changes, self._encode(changes, at_seconds), at_seconds) if changes else None

    def empty(self, first_step: int) -> None:
        """Let every block that is left leave the cache, over one cycle's worth of steps."""
        left = [value for value, copies in self.held.items() for _ in range(copies)]
        steps = round(self.recording.cycle_seconds / STEP_SECONDS)
        for number, part in enumerate(np.array_split(np.array(left, dtype=np.uint64), steps)):
            step = first_step + number
            changes = [Removed([int(value)]) for value in part]
            while len(self.recording.events) <= step:
                self.recording.events.append(None)
                self.recording.hook.append(None)
            if changes:
                at = step * STEP_SECONDS
                self.recording.events[step] = frame_of_events(changes, self._encode(changes, at), at)
                self.recording.block_events += len(changes)


def frame_of_records(records: Sequence[Record]) -> Frame | None:
    """The hook's frame of some records; None for none."""
    if not records:
        return None
    payload = msgspec.msgpack.encode(list(records))
    finder = _Finder(payload)
    for record in records:
        for name, value in record.items():
            if name in ("ts", "arrival") and isinstance(value, float):
                finder.time(value)
            elif name == "rid":
                finder.id(str(value))
            elif name == "hashes" and isinstance(value, Sequence):
                finder.hashes(value)
    return finder.frame()


def frame_of_events(changes: Sequence[BlockChange], payload: bytes, at_seconds: float) -> Frame:
    """The frame of an engine's block events."""
    finder = _Finder(payload)
    finder.time(at_seconds)
    for change in changes:
        finder.hashes([value.to_bytes(8, "big") for value in change.hashes])
        if isinstance(change, Stored) and change.parent is not None:
            finder.hashes([change.parent.to_bytes(8, "big")])
    return finder.frame()


class _Finder:
    """Finds, in the order in which they were encoded, the values that will be others."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._at = payload, 0
        self._times: list[tuple[int, float]] = []
        self._ids: list[int] = []
        self._hashes: list[int] = []

    def time(self, value: float) -> None:
        self._times.append((self._find(b"\xcb" + struct.pack(">d", value)) + 1, value))

    def id(self, value: str) -> None:
        self._ids.append(self._find(value.encode()) + len(value) - TAG_DIGITS)

    def hashes(self, values: Iterable[bytes]) -> None:
        self._hashes += [self._find(value) for value in values]

    def frame(self) -> Frame:
        return Frame(
            self._payload,
            np.array([at for at, _ in self._times], dtype=np.int64),
            np.array([value for _, value in self._times]),
            np.array(self._ids, dtype=np.int64),
            np.array(self._hashes, dtype=np.int64),
        )

    def _find(self, what: bytes) -> int:
        at = self._payload.index(what, self._at)
        self._at = at + len(what)
        return at


def recordings(cycle_seconds: float) -> list[Recording]:
    """Serve one cycle of traffic on `REPLICAS` engines, and keep what they said."""
    config = replace(CONFIG, duration_seconds=cycle_seconds, max_prompt_tokens=MOST_PROMPT_TOKENS)
    ears = [_Ear(index, cycle_seconds) for index in range(REPLICAS)]
    fleet = Fleet(config, MixedWorkload.of(config), observe=lambda index: ears[index].writer)
    steps = round((cycle_seconds + DRAIN_SECONDS) / STEP_SECONDS)
    for step in range(steps):
        now = (step + 1) * STEP_SECONDS
        fleet.run_until(now)
        for ear, engine in zip(ears, fleet.engines, strict=True):
            changes, engine.pool.changes = engine.pool.changes, []
            ear.end_step(changes, now)
            if step % round(PAGE_SECONDS / STEP_SECONDS) == 0:
                ear.recording.pages.append(_lines(vllm_page(engine, _FACTS).page()))
    assert fleet.finished, "the recorded answers take longer than is recorded"
    for ear in ears:
        ear.empty(steps)
        ear.recording.tokens = ear.tally.tokens
    return [ear.recording for ear in ears]


_FACTS = EngineFacts.of(CONFIG, started_unix_seconds=0.0)


def _lines(page: bytes) -> list[tuple[str, float, bool]]:
    """A page's lines, comments left out, values apart, and which of them are of counters."""
    found: list[tuple[str, float, bool]] = []
    grows = False
    for line in page.decode().splitlines():
        if line.startswith("# TYPE"):
            grows = not line.endswith("gauge")
        elif line and not line.startswith("#"):
            words, _, value = line.rpartition(" ")
            found.append((words, float(value), grows))
    return found
