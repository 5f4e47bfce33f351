"""The newest stretch of a window as a trace: what routers are compared on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tierscope.advice.thresholds import MOST_ROUTED_ACCESSES, MOST_ROUTED_REQUESTS, WARM_UP_SHARE
from tierscope.domain.trace import FloatArray, Int32Array, Int64Array, Trace
from tierscope.domain.window import RequestWindow


@dataclass(frozen=True, slots=True)
class Sample:
    """All requests of the newest stretch of a window, in the order in which they came.

    A stretch and not some of the sessions, because a router and a queue depend on everything that comes
    meanwhile. `requests` (m,) index the window, `placement` (m,) are the replicas that served them.
    """

    window: RequestWindow
    requests: Int64Array
    trace: Trace
    placement: Int32Array

    @property
    def first_measured(self) -> int:
        """Index of the first request that counts; those before only fill the caches."""
        return int(len(self.requests) * WARM_UP_SHARE)

    @property
    def seconds(self) -> float:
        """Time between the first and the last request."""
        at = self.trace.at_ms
        return float(at[-1] - at[0]) / 1000 if len(at) else 0.0

    def of(self, column: Int64Array | FloatArray) -> FloatArray:
        """A column of the window (n,) for the requests that count: (measured,)."""
        taken: FloatArray = column[self.requests[self.first_measured :]].astype(np.float64)
        return taken

    def with_answers(self, output_tokens: int) -> Trace:
        """The trace with every answer that long: records do not tell how long answers were."""
        answers = np.full(self.trace.requests, output_tokens, dtype=np.int64)
        t = self.trace
        return Trace(
            t.name, t.block_tokens, t.at_ms, t.input_tokens, answers, t.session, t.offsets, t.block_ids
        )


def sample_of(window: RequestWindow, replicas: int) -> Sample:
    """Take the newest requests, as many as the simulator serves in a second or so."""
    came = window.at_unix_seconds - np.nan_to_num(window.queue_seconds, nan=0.0)
    order = np.argsort(came, kind="stable")
    lengths = np.diff(window.offsets)
    most_accesses = MOST_ROUTED_ACCESSES // max(replicas // 8, 1)
    kept = int(np.count_nonzero(np.cumsum(lengths[order][::-1]) <= most_accesses))
    requests = order[window.requests - min(kept, MOST_ROUTED_REQUESTS) :]
    offsets = np.concatenate(([0], np.cumsum(lengths[requests])), dtype=np.int64)
    chains = [window.block_hashes[window.offsets[i] : window.offsets[i + 1]] for i in requests.tolist()]
    hashes = np.concatenate(chains) if chains else np.zeros(0, np.uint64)
    at = came[requests]
    trace = Trace(
        name="recorded",
        block_tokens=window.block_tokens,
        at_ms=((at - at.min(initial=np.inf)) * 1000).astype(np.int64) if len(at) else np.zeros(0, np.int64),
        input_tokens=window.prompt[requests],
        output_tokens=np.ones(len(requests), np.int64),
        session=_numbered(window.session[requests]),
        offsets=offsets,
        block_ids=np.unique(hashes, return_inverse=True)[1].astype(np.int32),
    )
    return Sample(window, requests, trace, (window.engine[requests] % replicas).astype(np.int32))


def _numbered(sessions: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Int32Array:
    """Sessions by number, -1 where none is known."""
    numbers = np.unique(sessions, return_inverse=True)[1].astype(np.int32)
    return np.where(sessions == 0, np.int32(-1), numbers).astype(np.int32)
