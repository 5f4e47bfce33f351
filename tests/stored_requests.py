"""A store's reader with one request a second of one engine, which may be slow for a while."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from tierscope.domain.errors import StoreUnusable
from tierscope.domain.identity import EngineId
from tierscope.domain.window import CoveredSamples, Evidence, RequestWindow, TimeSpan

PROMPT, BLOCK = 1600, 16


class StoredRequests:
    """Half of the requests repeat the one before; `broken` names an endpoint that cannot be read.

    Requests from `stored_until` on have not come in yet.
    """

    def __init__(
        self,
        slow_from: float = np.inf,
        slow_until: float = np.inf,
        *,
        model: str = "m",
        replica: str = "pod-0",
        served_from: float = 0.0,
        pace: float = 1.0,
    ) -> None:
        self._slow = (slow_from, slow_until)
        self._who, self._served_from, self._pace = (model, replica), served_from, pace
        self.asked: list[TimeSpan] = []
        self.broken = ""
        self.stored_until = np.inf
        self.error = StoreUnusable("no", where="here", fix="there")

    def endpoints(self):
        return (("ns", "chat"),)

    def samples(self, namespace, endpoint, span):
        return CoveredSamples((), ())

    def deployments(self, namespace, endpoint, span):
        return ()

    def evidence(self, namespace, endpoint, span):
        return Evidence(self.window(namespace, endpoint, span), ())

    def window(self, namespace, endpoint, span):
        if endpoint == self.broken:
            raise self.error
        self.asked.append(span)
        first, last = (
            int(np.ceil(max(self._served_from, at)))
            for at in (span.start_unix_seconds, span.end_unix_seconds)
        )
        at = np.arange(first, max(first, min(last, self.stored_until)), dtype=np.float64)
        n = len(at)
        served = np.where(at % 2 == 1, 800, 0).astype(np.int64)
        zero, nothing = np.zeros(n, dtype=np.int64), np.zeros(n)
        slow = np.where((at >= self._slow[0]) & (at < self._slow[1]), 1.6, 1.0)
        noise = np.exp(0.2 * np.sin(at * 12.9898) * np.sin(at * 78.233))
        chain = np.arange(PROMPT // BLOCK, dtype=np.uint64)
        prefix = np.uint64(crc32(self._who[1].encode()) << 32)  # nobody asks for what another replica has
        own = prefix + (at // 2).astype(np.uint64)[:, None] * np.uint64(1000) + chain
        return RequestWindow(
            span=span, engines=(EngineId("ns", endpoint, self._who[1]),), models=(self._who[0],),
            block_tokens=BLOCK, chunk_tokens=None, at_unix_seconds=at, engine=np.zeros(n, dtype=np.int32),
            model=np.zeros(n, dtype=np.int32), session=np.zeros(n, dtype=np.uint64),
            prompt=np.full(n, PROMPT, dtype=np.int64), l0=served, l1=zero, l2=zero, external=zero,
            computed=PROMPT - served, queue_seconds=nothing, load_seconds=np.full(n, np.nan),
            ttft_seconds=self._pace * slow * noise * (0.02 + 1e-4 * (PROMPT - served)),
            offsets=np.arange(n + 1, dtype=np.int64) * (PROMPT // BLOCK), block_hashes=own.ravel(),
        )  # fmt: skip


class StoredTogether(StoredRequests):
    """An endpoint whose requests are those of several at once."""

    def __init__(self, *parts: StoredRequests) -> None:
        super().__init__()
        self._parts = parts

    def window(self, namespace, endpoint, span):
        windows = [part.window(namespace, endpoint, span) for part in self._parts]
        order = np.argsort(np.concatenate([one.at_unix_seconds for one in windows]), kind="stable")
        each = {
            name: np.concatenate([getattr(one, name) for one in windows])[order]
            for name in (
                "at_unix_seconds", "session", "prompt", "l0", "l1", "l2", "external", "computed",
                "queue_seconds", "load_seconds", "ttft_seconds",
            )
        }  # fmt: skip
        which = np.repeat(np.arange(len(windows), dtype=np.int32), [one.requests for one in windows])[order]
        blocks = np.concatenate([one.block_hashes.reshape(-1, PROMPT // BLOCK) for one in windows])[order]
        return RequestWindow(
            span=span, engines=tuple(one.engines[0] for one in windows), block_tokens=BLOCK,
            chunk_tokens=None, models=tuple(one.models[0] for one in windows), engine=which, model=which,
            **each, offsets=np.arange(len(order) + 1, dtype=np.int64) * (PROMPT // BLOCK),
            block_hashes=blocks.ravel(),
        )  # fmt: skip
