"""A store's reader with one request a second of one engine, which may be slow for a while."""

from __future__ import annotations

import numpy as np

from tierscope.domain.errors import StoreUnusable
from tierscope.domain.identity import EngineId
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan

PROMPT, BLOCK = 1600, 16


class StoredRequests:
    """Half of the requests repeat the one before; `broken` names an endpoint that cannot be read.

    Requests from `stored_until` on have not come in yet.
    """

    def __init__(self, slow_from: float = np.inf, slow_until: float = np.inf) -> None:
        self._slow = (slow_from, slow_until)
        self.asked: list[TimeSpan] = []
        self.broken = ""
        self.stored_until = np.inf
        self.error = StoreUnusable("no", where="here", fix="there")

    def endpoints(self):
        return (("ns", "chat"),)

    def samples(self, namespace, endpoint, span):
        return ()

    def deployments(self, namespace, endpoint, span):
        return ()

    def evidence(self, namespace, endpoint, span):
        return Evidence(self.window(namespace, endpoint, span), (), ())

    def window(self, namespace, endpoint, span):
        if endpoint == self.broken:
            raise self.error
        self.asked.append(span)
        first, last = (int(np.ceil(max(0.0, at))) for at in (span.start_unix_seconds, span.end_unix_seconds))
        at = np.arange(first, max(first, min(last, self.stored_until)), dtype=np.float64)
        n = len(at)
        served = np.where(at % 2 == 1, 800, 0).astype(np.int64)
        zero, nothing = np.zeros(n, dtype=np.int64), np.zeros(n)
        slow = np.where((at >= self._slow[0]) & (at < self._slow[1]), 1.6, 1.0)
        noise = np.exp(0.2 * np.sin(at * 12.9898) * np.sin(at * 78.233))
        chain = np.arange(PROMPT // BLOCK, dtype=np.uint64)
        own = (at // 2).astype(np.uint64)[:, None] * np.uint64(1000) + chain
        return RequestWindow(
            span=span, engines=(EngineId("ns", endpoint, "pod-0"),), block_tokens=BLOCK, chunk_tokens=None,
            at_unix_seconds=at, engine=np.zeros(n, dtype=np.int32), session=np.zeros(n, dtype=np.uint64),
            prompt=np.full(n, PROMPT, dtype=np.int64), l0=served, l1=zero, l2=zero, external=zero,
            computed=PROMPT - served, queue_seconds=nothing, load_seconds=np.full(n, np.nan),
            ttft_seconds=slow * noise * (0.02 + 1e-4 * (PROMPT - served)),
            offsets=np.arange(n + 1, dtype=np.int64) * (PROMPT // BLOCK), block_hashes=own.ravel(),
        )  # fmt: skip
