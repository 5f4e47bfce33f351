"""A recorded trace as traffic: its requests in file order, at its times, whatever the engines do."""

from __future__ import annotations

import numpy as np

from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Trace, UInt64Array
from tierscope.testbed.workload.hashes import mix
from tierscope.testbed.workload.request import Request


class TraceWorkload:
    """Replays a `Trace`. A time that falls behind its predecessor's is raised to it.

    The trace does not say which ids an answer's blocks will have in a later prompt, so generated
    blocks get ids of their own and are never hit.
    """

    def __init__(self, trace: Trace, *, seed: int, until_seconds: float | None) -> None:
        if trace.session_relative_times:
            raise BadInput(
                f"the trace {trace.name} has times that start at 0 in every session",
                where=trace.name,
                fix="give its sessions start times first (spread_sessions)",
            )
        self._trace = trace
        self._seed = mix(seed, 0)
        self._until_seconds = until_seconds
        self._next = 0
        self._at_seconds = 0.0
        ids = int(trace.block_ids.max()) + 1 if trace.accesses else 0
        self._known: UInt64Array = np.zeros(ids, np.uint64)

    def next_arrival(self) -> Request | None:
        """The next request of the file."""
        index = self._next
        if index == self._trace.requests:
            return None
        self._at_seconds = max(self._at_seconds, float(self._trace.at_ms[index]) / 1000)
        if self._until_seconds is not None and self._at_seconds >= self._until_seconds:
            return None
        self._next += 1
        return self._request(index)

    def follow_up(self, request: Request, finished_seconds: float) -> Request | None:  # noqa: ARG002
        """Nothing: every request of a trace comes at its own time."""
        return None

    def _request(self, index: int) -> Request:
        trace = self._trace
        prompt = max(1, int(trace.input_tokens[index]))
        output = max(1, int(trace.output_tokens[index]))
        first, last = int(trace.offsets[index]), int(trace.offsets[index + 1])
        full = prompt // trace.block_tokens
        known = self._hashes_of(trace.block_ids[first : min(last, first + full)])
        hashes: list[int] = known.tolist()
        raw = known.astype(">u8").tobytes()
        parent = hashes[-1] if hashes else self._seed
        for position in range(len(hashes), (prompt + output - 1) // trace.block_tokens):
            parent = mix(parent, mix(self._seed, (index << 24) + position))
            hashes.append(parent)
        session = int(trace.session[index])
        return Request(
            request_id=f"cmpl-{trace.name}-{index}-{mix(self._seed, index) >> 32:08x}",
            session=f"session-{session}" if session >= 0 else f"request-{index}",
            at_seconds=self._at_seconds,
            prompt_tokens=prompt,
            output_tokens=output,
            hashes=hashes,
            digests=[raw[start : start + 8] for start in range(0, len(raw), 8)],
        )

    def _hashes_of(self, ids: Int32Array) -> UInt64Array:
        """Hashes of a path of ids; an id always has the same parent, so each is mixed once."""
        hashes = self._known[ids]
        new = np.flatnonzero(hashes == 0)
        if len(new):
            parent = int(hashes[new[0] - 1]) if new[0] else self._seed
            for position in range(int(new[0]), len(ids)):
                parent = mix(parent, int(ids[position]))
                hashes[position] = parent
            self._known[ids] = hashes
        return hashes
