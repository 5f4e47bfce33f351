"""Replicas that name equal prompts differently, from the names that the window's records have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tierscope.advice.document import Finding, FindingKind
from tierscope.analytics.chunk_names import Pair, PromptNames
from tierscope.domain.names import Beginning
from tierscope.domain.severity import Severity

MOST_PAIRS = 5
"""Pairs that a finding names; of more it says how many."""


def name_findings(beginnings: Iterable[Beginning]) -> Iterator[Finding]:
    """At most one finding of cache servers and one of engines, each with the pairs and what was compared."""
    beginnings = tuple(beginnings)
    names = PromptNames.of(beginnings)
    if caches := names.cache_pairs():
        yield Finding(
            FindingKind.HASH_SEED_MISMATCH,
            Severity.CRITICAL,
            "Replicas name the same block differently, so none finds what another stored",
            _evidence(caches, _replicas_behind(beginnings), "chunks"),
            "give all cache servers the same --hash-algorithm, best blake3, which needs no seed; builtin "
            "needs one PYTHONHASHSEED on every replica. What L2 holds now is found by nobody afterwards",
        )
    if engines := names.engine_pairs():
        yield Finding(
            FindingKind.ENGINE_HASH_SEED_MISMATCH,
            Severity.WARNING,
            "Engines name the same block differently, so a router that looks blocks up finds nothing",
            _evidence(engines, {}, "blocks"),
            "give all engines the same --prefix-caching-hash-algo and PYTHONHASHSEED, or an algorithm that "
            "needs no seed (sha256_cbor)",
        )


def caches_disagree(beginnings: Iterable[Beginning]) -> bool:
    """Whether some cache servers were seen to name the same prompts differently."""
    return bool(PromptNames.of(beginnings).cache_pairs())


def _evidence(pairs: Mapping[Pair, int], replicas: Mapping[str, str], what: str) -> str:
    """The pairs most compared first; of each how many first blocks both named, and that none was common."""
    ordered = sorted(pairs.items(), key=lambda row: (-row[1], row[0]))
    told = "; ".join(
        f"{_named(a, replicas)} and {_named(b, replicas)}: of {count} first {what} of the same prompts "
        f"0 have one name, {count} have two"
        for (a, b), count in ordered[:MOST_PAIRS]
    )
    return f"{told}{f'; and {len(ordered) - MOST_PAIRS} more pairs' if len(ordered) > MOST_PAIRS else ''}."


def _named(who: str, replicas: Mapping[str, str]) -> str:
    return f"{who} ({replicas[who]})" if who in replicas else who


def _replicas_behind(beginnings: Iterable[Beginning]) -> dict[str, str]:
    """Which replicas each cache server serves."""
    behind: dict[str, set[str]] = {}
    for beginning in beginnings:
        behind.setdefault(beginning.server, set()).add(beginning.engine.replica)
    return {server: ", ".join(sorted(replicas)) for server, replicas in behind.items()}
