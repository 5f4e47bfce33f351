"""What is wrong with an LMCache server and its L2: from its records, over what happened last.

Every judgement is over the newest events, so that a finding goes when its cause does. Who else must be
asked for the cause (the pool, the engines' settings) is named in the fix.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from exporters.oddities import Finding
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity
from tierscope.domain.units import format_bytes, format_seconds

LAST_CHUNKS = 1_000
"""Chunks that a judgement looks back over."""

LAST_LOADS = 100
"""Loads from L2 that their speed is measured over."""

FEWEST_CHUNKS = 100
FEWEST_LOADS = 10
"""Less than this is judged in no way."""

THRASH_RATIO = 0.3
"""Share of what comes into L1 that had only just made room, from which on it is too small."""

REFUSED_RATIO = 0.01
"""Share of what was to be stored and was not, from which on a store's answer misleads."""

MOST_EVICTED = 50_000
"""Evicted chunks that are remembered, in case they come back."""


class ServerSuspect(StrEnum):
    """What is wrong with an LMCache server."""

    SPLIT_UNTOLD = "lmcache_loads_are_not_split"
    """Its probe is not read: what engines load from it is external, and its evictions have no reason."""
    L1_THRASH = "l1_thrash"
    """Much of what comes into L1 had made room there only just: it is too small for what is asked."""
    STORE_REFUSED = "stores_are_answered_but_not_kept"
    """Stores are answered as if done while L1 has no room, and the chunks are lost."""
    PHANTOM_EVICTION = "pool_lost_chunks_unannounced"
    """Chunks that this server wrote to L2 and never deleted are not found any more: the pool removed them."""
    L2_SLOWER = "l2_load_slower_than_recompute"
    """L2 is read slower than the engine could compute the same tokens."""
    HASH_SEED = "hash_seed_mismatch"
    """Two servers name the same prompt's chunks differently, so neither can use what the other stored."""


@dataclass(slots=True)
class _Load:
    seconds: float
    size_bytes: int
    objects: int


@dataclass(slots=True)
class ServerJudge:
    """Follows what one server's tiers do and judges it. Used by one thread; `where` names it in messages.

    `prefill_tokens_per_second` is what an engine computes without a cache, None where it is not configured.
    """

    where: str
    prefill_tokens_per_second: float | None = None
    _evicted: dict[int, float] = field(default_factory=dict)
    _came_back: deque[float | None] = field(default_factory=lambda: deque(maxlen=LAST_CHUNKS))
    """Of each chunk that came into L1: after how many seconds it came back, None for a new one."""
    _kept: deque[bool] = field(default_factory=lambda: deque(maxlen=LAST_CHUNKS))
    """Of each object that was to be stored: whether it was."""
    _found: deque[bool] = field(default_factory=lambda: deque(maxlen=LAST_CHUNKS))
    """Of each lookup that ended at a chunk of ours or after one: whether L2 still had it."""
    _loads: deque[_Load] = field(default_factory=lambda: deque(maxlen=LAST_LOADS))
    _tokens_per_object: float | None = None

    def came(self, chunks: Sequence[int], at_unix_seconds: float) -> None:
        """Chunks came into L1, stored or loaded."""
        for chunk in chunks:
            left = self._evicted.pop(chunk, None)
            self._came_back.append(None if left is None else max(0.0, at_unix_seconds - left))

    def made_room(self, chunks: Sequence[int], at_unix_seconds: float) -> None:
        """Chunks left L1 because room was needed."""
        for chunk in chunks:
            if len(self._evicted) >= MOST_EVICTED:
                del self._evicted[next(iter(self._evicted))]
            self._evicted[chunk] = at_unix_seconds

    def stored(self, objects: int, *, kept: bool) -> None:
        """Objects were to be stored in L1."""
        self._kept.extend([kept] * min(objects, LAST_CHUNKS))

    def looked_for(self, *, found: bool) -> None:
        """A chunk that L2 should have was looked for."""
        self._found.append(found)

    def hit(self, tokens: int, objects: int | None) -> None:
        """A lookup found so many tokens in so many objects of L2."""
        if objects:
            self._tokens_per_object = tokens / objects

    def loaded(self, seconds: float, size_bytes: int, objects: int) -> None:
        """A load from L2 ended."""
        self._loads.append(_Load(seconds, size_bytes, objects))

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong now."""
        yield from self._thrash()
        yield from self._refused()
        yield from self._phantoms()
        yield from self._slow()

    def _thrash(self) -> Iterator[Finding]:
        back = sorted(seconds for seconds in self._came_back if seconds is not None)
        if len(self._came_back) < FEWEST_CHUNKS or len(back) < THRASH_RATIO * len(self._came_back):
            return
        yield self._finding(
            ServerSuspect.L1_THRASH,
            f"of the last {len(self._came_back)} chunks that came into L1, {len(back)} had been evicted "
            f"to make room, half of them within {format_seconds(back[len(back) // 2])}",
            "give the server a larger L1 (--l1-size-gb), or send requests with one prefix to one node",
        )

    def _refused(self) -> Iterator[Finding]:
        refused = self._kept.count(False)
        if not refused or refused < REFUSED_RATIO * len(self._kept):
            return
        yield self._finding(
            ServerSuspect.STORE_REFUSED,
            f"of the last {len(self._kept)} objects that engines stored, {refused} were answered as stored "
            "and were not kept: L1 had no room",
            "lower --eviction-trigger-watermark or raise --eviction-ratio, so that L1 makes room before it "
            "is full, or give it more memory",
        )

    def _phantoms(self) -> Iterator[Finding]:
        gone = self._found.count(False)
        if not gone:
            return
        yield self._finding(
            ServerSuspect.PHANTOM_EVICTION,
            f"of the last {len(self._found)} prompts that reached a chunk which this server wrote to L2, "
            f"{gone} did not find it, and LMCache never deleted it",
            "the pool itself evicts, expires or loses files: scan its mount (`mounts`) to see what it "
            "removes; l2_usage_bytes of this server still counts them and is not used",
        )

    def _slow(self) -> Iterator[Finding]:
        rate, per_object = self.prefill_tokens_per_second, self._tokens_per_object
        seconds = sum(load.seconds for load in self._loads)
        objects = sum(load.objects for load in self._loads)
        if rate is None or per_object is None or len(self._loads) < FEWEST_LOADS or not seconds:
            return
        size_bytes = sum(load.size_bytes for load in self._loads)
        loaded_rate = objects * per_object / seconds
        if loaded_rate >= rate:
            return
        break_even = rate * size_bytes / (objects * per_object)
        yield self._finding(
            ServerSuspect.L2_SLOWER,
            f"the last {len(self._loads)} loads from L2 read {format_bytes(size_bytes / seconds)}/s, which "
            f"is {loaded_rate:.0f} tokens/s; the engine computes {rate:.0f} tokens/s",
            f"L2 pays from {format_bytes(break_even)}/s on: look for what slows the pool, or keep L2 for "
            "prompts that wait in a queue anyway",
        )

    def _finding(self, suspect: ServerSuspect, what: str, fix: str) -> Finding:
        return Finding(suspect, Severity.WARNING, BadInput(what, where=self.where, fix=fix))


def split_untold(server: str, url: str) -> Finding:
    """The finding of a server that engines load from, and that does not tell its lookups."""
    error = BadInput(
        f"what engines load from {server} cannot be split between L1 and L2: its page counts hits from each "
        "prompt's start, also what the engine has in L0",
        where=url,
        fix="load tierscope-probe into the server (--server-module) and name its address in "
        "`records_endpoint`; until then those tokens are external, evictions are of unknown reason, no load "
        "is timed, and whose stores are refused, a thrashing L1 and other hash seeds are not seen",
    )
    return Finding(ServerSuspect.SPLIT_UNTOLD, Severity.INFO, error)
