"""Whether caches still write to the pool they should: an address lost at a re-render shows here. Pure.

An operator that renders a pod anew drops what was patched into it by hand. Nothing fails then: the cache
goes on with L1 alone, or with the operator's own second tier.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from exporters.exposition import Exposition
from exporters.oddities import Finding
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity

MANAGED = "sagemaker-hyperpod"
"""How LMCache names the adapter of HyperPod's own memory tier."""

FEWEST_CHUNKS = 32
"""Chunks stored before an engine that wrote none to its pool is judged: writes are behind by some."""

_ADAPTERS = "lmcache_mp_l2_store_adapters"
_USAGE = "lmcache_mp_l2_usage_bytes"


class AttachmentSuspect(StrEnum):
    """What is wrong between a cache and its pool."""

    NOT_ATTACHED = "l2_not_attached"
    """A cache that should write to a pool has no L2, or another one: its address was lost."""


def server_bytes(page: Exposition) -> int | None:
    """What a server says it holds in L2: its own writes since its start; None where it does not say."""
    held = page.total(_USAGE)
    return None if held is None else int(held)


def uses_managed_tier(page: Exposition) -> bool:
    """Whether the operator's own memory tier is an L2 of this server."""
    return any(_is_managed(series.labels.get("l2_name", "")) for series in page.named(_USAGE))


def judge_server(page: Exposition, pool: str, *, where: str) -> Iterator[Finding]:
    """Judge a multiprocess server that should write to a pool."""
    active = [n for series, n in page.named(_ADAPTERS).items() if series.labels.get("state") == "active"]
    names = sorted({series.labels.get("l2_name", "") for series in page.named(_USAGE)})
    if active and not sum(active):
        yield _lost(f"it has no L2 adapter, although it should write to the pool {pool}", where)
    elif names and all(map(_is_managed, names)):
        yield _lost(f"its only L2 is {', '.join(names)}, although it should write to the pool {pool}", where)


def judge_engine(
    stored_chunks: int | None, written_chunks: int | None, pool: str, *, where: str
) -> Iterator[Finding]:
    """Judge LMCache inside an engine that should write to a pool, by what it stored since it began."""
    if stored_chunks is not None and stored_chunks >= FEWEST_CHUNKS and not written_chunks:
        told = f"it stored {stored_chunks} chunks and wrote none of them on"
        yield _lost(f"{told}, although it should write to the pool {pool}", where)


def _is_managed(name: str) -> bool:
    return name.replace("_", "-").startswith(MANAGED)


def _lost(what: str, where: str) -> Finding:
    error = BadInput(
        what,
        where=where,
        fix="look whether the pod still has its L2 address (LMCACHE_REMOTE_URL, --l2-adapter): an operator "
        "drops what was patched into a pod whenever it renders it anew; let an admission webhook put it back",
    )
    return Finding(AttachmentSuspect.NOT_ATTACHED, Severity.CRITICAL, error)
