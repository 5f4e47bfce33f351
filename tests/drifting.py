"""Workloads of documents and prompts that share nothing, which stay as they are or drift in known ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tierscope.analytics.chains import Chains
from tierscope.domain.trace import Int32Array

KINDS = ("fading", "growing", "jumping")
"""The share of prompts that repeat nothing rises, falls, or jumps within the half that is seen."""
DOCUMENTS = 400
DOCUMENT_BLOCKS = 20
STEADY = 0.3
SESSION_REQUESTS = 25


def unrelated_share(kind: str, at: float) -> float:
    """Share of prompts that repeat nothing, at a moment from 0 to 1 of the workload."""
    return {
        "stationary": STEADY,
        "fading": 0.2 + 0.8 * at,
        "growing": 0.8 - 0.75 * at,
        "jumping": 0.1 if at < 0.3 else 0.55,
    }[kind]


def generated(kind: str, rng: np.random.Generator, *, requests: int = 3000) -> Chains:
    """Questions about documents, some far more popular than others, among unrelated prompts."""
    paths = []
    fresh = DOCUMENTS * DOCUMENT_BLOCKS
    for request in range(requests):
        if rng.random() < unrelated_share(kind, request / requests):
            blocks = int(rng.integers(5, 40))
            paths.append(np.arange(fresh, fresh + blocks))
            fresh += blocks
        else:
            document = int(rng.zipf(1.3) % DOCUMENTS)
            paths.append(document * DOCUMENT_BLOCKS + np.arange(int(rng.integers(8, DOCUMENT_BLOCKS))))
    _, ids = np.unique(np.concatenate(paths), return_inverse=True)
    offsets = np.cumsum([0, *map(len, paths)], dtype=np.int64)
    return Chains(offsets, ids.astype(np.int32), int(ids.max()) + 1)


def interleaved(
    rng: np.random.Generator, active: Callable[[float], int], *, requests: int = 3000
) -> tuple[Chains, Int32Array]:
    """Sessions whose prompts grow, `active` of them at a moment from 0 to 1: chains, and sessions (n,).

    Any of the active ones asks next; after 25 requests on average it ends. What one session's blocks hit at
    a size depends on how many others ask in between: the load, and nothing else, drifts with `active`.
    """
    paths, sessions = [], []
    alive: list[tuple[int, list[int]]] = []
    begun = fresh = 0
    for request in range(requests):
        while len(alive) < active(request / requests):
            alive.append((begun, []))
            begun += 1
        place = int(rng.integers(len(alive)))
        session, path = alive[place]
        path.extend(range(fresh, fresh + int(rng.integers(2, 9))))
        fresh = path[-1] + 1
        paths.append(np.array(path))
        sessions.append(session)
        if rng.random() < 1 / SESSION_REQUESTS or len(alive) > active(request / requests):
            alive.pop(place)
    offsets = np.cumsum([0, *map(len, paths)], dtype=np.int64)
    return Chains(offsets, np.concatenate(paths).astype(np.int32), fresh), np.array(sessions, np.int32)
