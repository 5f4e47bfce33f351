"""A bench's row, and how time is taken for it."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours, and a peer's of the same work in the same run where there is a peer.

    `ratio` says how many times the peer's figure ours is; None without a peer.
    """

    what: str
    value: float
    unit: str
    peer: str | None = None
    ratio: float | None = None


def core_seconds(action: Callable[[], object]) -> float:
    """Run an action once and return the processor time it took, over all threads of this process.

    Unlike time on the clock this says little less on a machine that others use too.
    """
    started = time.process_time()
    action()
    return time.process_time() - started


def best_seconds(action: Callable[[], object], *, repeats: int = 5) -> float:
    """Run an action so many times and return the shortest; the others were disturbed."""
    shortest = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        shortest = min(shortest, time.perf_counter() - started)
    return shortest


def most_memory() -> Row:
    """The most memory that this process has had so far, the peers' work and what it prepared included."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Row("most memory of this process so far", kibibytes * 1024 / 1e6, "MB")
