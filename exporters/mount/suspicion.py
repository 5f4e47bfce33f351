"""What is wrong with a pool's directory: each with its numbers and what to do. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum

from exporters.mount.figures import Amount, Figures
from exporters.mount.models import OTHER
from exporters.oddities import Finding
from exporters.pools import PoolFacts
from tierscope.analytics.pool import unserved_models
from tierscope.domain.errors import BadInput
from tierscope.domain.requests import UNKNOWN_MODEL
from tierscope.domain.severity import Severity
from tierscope.domain.units import GIB, format_bytes

DRIFT_RATIO = 0.10
"""Share of the larger of two figures by which they may differ: stores and scans are not of one moment."""

SMALLEST_DRIFT_BYTES = GIB
"""Blocks and directories of the pool's own take some room; less than this is nobody's fault."""

WASTED_RATIO = 0.01
"""Share of a directory's bytes from which on files of no use are worth deleting."""


class DirectorySuspect(StrEnum):
    """What is wrong with a pool's directory."""

    USAGE_DRIFT = "pool_usage_drift"
    """The cache servers, the directory and the pool disagree on how much is stored."""
    DEAD_FILES = "pool_dead_files"
    """Unfinished and empty files take room that no cache will ever use."""
    FOREIGN_FILES = "pool_foreign_files"
    """Files that no known cache writes take room in the pool."""
    FOREIGN_MODELS = "pool_foreign_models"
    """Chunks of models that are not among those said to use the pool: nobody will ask for them."""


def judge_directory(
    figures: Figures, facts: PoolFacts, models: Collection[str], *, where: str
) -> Iterator[Finding]:
    """Judge one complete scan; `models` are those that should be there, empty where nobody said."""
    yield from _drift(figures.total, facts, where)
    dead, foreign = figures.of_kind("dead_temp", "empty"), figures.of_kind("foreign")
    if dead.files and _is_waste(dead, figures):
        yield _finding(
            DirectorySuspect.DEAD_FILES,
            Severity.INFO,
            f"{_told(dead)} are of writers that will not finish them, of {_told(figures.total)} in all",
            where,
            "delete them while no cache writes: temporary files by their age, chunk files without a byte",
        )
    if foreign.files:
        yield _finding(
            DirectorySuspect.FOREIGN_FILES,
            Severity.WARNING if _is_waste(foreign, figures) else Severity.INFO,
            f"{_told(foreign)} are of no cache we know, of {_told(figures.total)} in all",
            where,
            "keep a pool to its caches, or name their own folder as the mount's path; if a cache wrote them, "
            "report its release",
        )
    yield from _strangers(figures, models, where)


def _drift(directory: Amount, facts: PoolFacts, where: str) -> Iterator[Finding]:
    told = {"the directory's files": directory.size_bytes}
    if facts.used_bytes is not None:
        told["the pool (fs_used)"] = facts.used_bytes
    caches = sum(facts.cache_bytes.values())
    if caches > directory.size_bytes:  # less is usual: a cache server counts its own writes, since its start
        told[f"its {len(facts.cache_bytes)} LMCache servers (l2_usage_bytes)"] = caches
    most, least = max(told.values()), min(told.values())
    if most - least <= max(SMALLEST_DRIFT_BYTES, DRIFT_RATIO * most):
        return
    yield _finding(
        DirectorySuspect.USAGE_DRIFT,
        Severity.WARNING,
        "what the pool holds is told differently: "
        + ", ".join(f"{format_bytes(size_bytes)} by {who}" for who, size_bytes in told.items()),
        where,
        "the directory is what can be hit. More in the cache servers: the pool removed files they still "
        "count. More in the pool: other directories, copies (client.replicas), blocks not yet deleted",
    )


def _strangers(figures: Figures, models: Collection[str], where: str) -> Iterator[Finding]:
    if not models:
        return
    named = {model for kind, model in figures.amounts if kind == "chunk"} - {OTHER, UNKNOWN_MODEL}
    strange = unserved_models(named, models)
    if not strange:
        return
    held = sum((a for (_, model), a in figures.amounts.items() if model in strange), Amount())
    yield _finding(
        DirectorySuspect.FOREIGN_MODELS,
        Severity.WARNING,
        f"{_told(held)} are of models that are not said to use this pool: {', '.join(strange)}",
        where,
        "delete the files of models that are no longer served, or add them to the mount's `models`",
    )


def _is_waste(amount: Amount, figures: Figures) -> bool:
    return amount.size_bytes >= WASTED_RATIO * figures.total.size_bytes


def _told(amount: Amount) -> str:
    return f"{amount.files} files of {format_bytes(amount.size_bytes)}"


def _finding(suspect: DirectorySuspect, severity: Severity, what: str, where: str, fix: str) -> Finding:
    return Finding(suspect, severity, BadInput(what, where=where, fix=fix))
