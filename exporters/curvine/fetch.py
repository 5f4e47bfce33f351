"""The active master of a Curvine cluster: only its figures mean anything, and any master may be it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporters.curvine.parse import is_active
from exporters.fetch import Fetcher
from tierscope.domain.errors import SourceUnreadable


@dataclass(frozen=True, slots=True)
class MasterAnswer:
    """What the active master at `url` answered: its metrics page and its list of workers."""

    url: str
    metrics: bytes
    workers: bytes


def fetch_active_master(fetcher: Fetcher, urls: Sequence[str]) -> MasterAnswer:
    """Ask the masters in order until one is active; only reading paths are called.

    Raises `SourceUnreadable` that tells what each of them answered when none is.
    """
    refusals: list[str] = []
    for url in urls:
        base = url.rstrip("/")
        try:
            overview = fetcher.get(f"{base}/api/overview")
            if is_active(overview, where=f"{base}/api/overview"):
                return MasterAnswer(base, fetcher.get(f"{base}/metrics"), fetcher.get(f"{base}/api/workers"))
            refusals.append(f"{base} is not active")
        except SourceUnreadable as error:
            refusals.append(f"{base}: {error.what}")
    raise SourceUnreadable(
        "no active master was found",
        where="; ".join(refusals) or "no address",
        fix="name every master of the cluster, and check that one of them is active",
    )
