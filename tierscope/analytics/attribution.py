"""Which tier would have served each request, for any size of any tier: joint depths from one window.

Each tier is an LRU stack over its own reference stream, touched with the whole path of every request:
L0 over one engine's requests, L1 over one replica's, L2 over everybody's, the last two in whole chunks.
A tier's hits are a prefix of the path, so what is available is the longest of the three, and a token is
credited to the first tier that reaches it. The three depths are kept a request: their sums alone could
not be combined.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from tierscope.analytics.depths import Runs, Served, add_served, hit_tokens, stack_runs
from tierscope.analytics.stems import Stems, only_own, stems_of
from tierscope.domain.errors import BadInput
from tierscope.domain.trace import Int32Array, Int64Array
from tierscope.domain.window import RequestWindow

S = TypeVar("S")
T = TypeVar("T")
HOLDERS_AT_ONCE = 2
"""More wait for memory and are not faster; each pass has room of its own for a number of every block."""

MOST_ANSWERS = 8
"""Answers of one stream that are kept."""


@dataclass(frozen=True, eq=False)
class Holder:
    """One cache of a tier: `requests` (m,), ascending, index the window; it sees their chains alone.

    All holders of a tier have the same `stems`, those of everybody's chains.
    """

    requests: Int64Array
    stems: Stems

    @cached_property
    def runs(self) -> Runs:
        """Where its requests' paths lie in its stack: one pass, which tells all about every capacity."""
        return stack_runs(self.stems, self.requests)


@dataclass(frozen=True)
class Stream:
    """The reference streams of one tier: every holder's requests with their chains of `unit_tokens` units.

    `leading` (requests,) limits what a request can be served, in units, where a holder does not keep all
    that passes; None where it does.
    """

    unit_tokens: int
    requests: int
    holders: tuple[Holder, ...]
    leading: Int64Array | None = None

    @cached_property
    def _asked(self) -> dict[tuple[int, ...], Int64Array]:
        """The latest answers by sizes: a choice is weighed against the same few again and again."""
        return {}

    def hit_tokens(self, capacities_units: Int64Array) -> Int64Array:
        """Tokens of each request that one holder of each size would have had: (requests, sizes), int64.

        Nobody may write to it.
        """
        sizes = tuple(capacities_units.tolist())
        known = self._asked.get(sizes)
        if known is None:
            while len(self._asked) >= MOST_ANSWERS:
                del self._asked[next(iter(self._asked))]
            known = self._asked[sizes] = self._hit_tokens(capacities_units)
            known.flags.writeable = False
        return known

    def _hit_tokens(self, capacities_units: Int64Array) -> Int64Array:
        tokens = np.zeros((self.requests, len(capacities_units)), dtype=np.int64)
        most, unit = self._most_units(), self.unit_tokens
        for _ in _side_by_side(
            lambda holder: hit_tokens(holder.runs, holder.requests, most, unit, capacities_units, tokens),
            self.holders,
        ):
            pass
        return tokens

    def _most_units(self) -> Int64Array:
        """`leading`, or what never limits anyone."""
        return np.full(self.requests, np.iinfo(np.int32).max) if self.leading is None else self.leading

    def served_sums(
        self, base: Int64Array, most: Int64Array, capacities_units: Int64Array, cuts: Int64Array
    ) -> Int64Array:
        """Tokens that this tier of each size and those above it serve in each stretch: (stretches, sizes).

        `base` (requests,) tokens come from above, a request is served at most `most` (requests,). Stretch s
        has requests cuts[s]..cuts[s + 1] - 1; `cuts` ascend.
        """
        served = Served(self._most_units(), most, base)
        shape = len(cuts) - 1, len(capacities_units)

        def sums_of(holder: Holder) -> Int64Array:
            sums = np.zeros(shape, dtype=np.int64)
            add_served(holder.runs, holder.requests, self.unit_tokens, served, capacities_units, cuts, sums)
            return sums

        return sum(_side_by_side(sums_of, self.holders), start=np.zeros(shape, dtype=np.int64))

    def footprint_units(self, last: int | None = None) -> Int64Array:
        """Distinct units each holder was asked for by requests before `last`, else by all: (holders,)."""
        end = self.requests if last is None else last
        return np.array(
            [
                holder.runs.fresh[: np.searchsorted(holder.requests, end)].sum(dtype=np.int64)
                for holder in self.holders
            ],
            dtype=np.int64,
        )

    def longest_units(self) -> int:
        """Units of the longest chain; 0 without any."""
        return max((int(holder.stems.end.max(initial=0)) for holder in self.holders[:1]), default=0)


@dataclass(frozen=True)
class JointStreams:
    """The streams of the three tiers over the same requests; `prompt` (n,) are tokens.

    `l1` keeps everything that passes it.
    """

    prompt: Int64Array
    l0: Stream
    l1: Stream
    l2: Stream

    @cached_property
    def l1_own(self) -> Stream:
        """The stream of an L1 that drops what it loads from L2.

        It holds only chunks that its own replica was the first to compute, so a path counts up to the first
        foreign one. It is near, not exact: here an own chunk comes back when it is loaded again after its
        eviction. Really it does not, and then a smaller L1 need not hold a part of what a larger one holds:
        no single pass can tell that for every size.
        """
        return _own(self.l1)

    @cached_property
    def l2_named_alike(self) -> Stream:
        """The stream of the pool if everyone found what anyone stored."""
        if len(self.l2.holders) < 2:
            return self.l2
        everyone = Holder(np.arange(self.l2.requests, dtype=np.int64), self.l2.holders[0].stems)
        return Stream(self.l2.unit_tokens, self.l2.requests, (everyone,))


def joint_streams(
    window: RequestWindow, chunk_tokens: int, named_by: Sequence[int] | None = None
) -> JointStreams:
    """Cut a window into the reference streams of its engines (L0), replicas (L1) and pool (L2).

    `named_by` (engines,) numbers those that name chunks in one way: only they find in the pool what one of
    them stored. None: all do. Raises `BadInput` where a chunk is not a whole number of blocks.
    """
    per_chunk, rest = divmod(chunk_tokens, window.block_tokens)
    if rest or per_chunk < 1:
        raise BadInput(
            f"a chunk of {chunk_tokens} tokens is not a whole number of blocks of {window.block_tokens}",
            where="chunk_tokens",
            fix="set the cache server's chunk size to a multiple of the engine's block size",
        )
    blocks = stems_of(window.block_hashes, window.offsets)
    chunks = blocks.in_chunks(per_chunk)
    replica = [(engine.namespace, engine.endpoint, engine.replica) for engine in window.engines]
    n = window.requests
    l1 = Stream(chunk_tokens, n, _holders(chunks, window.engine, replica))
    return JointStreams(
        prompt=window.prompt,
        l0=Stream(window.block_tokens, n, _holders(blocks, window.engine, window.engines)),
        l1=l1,
        l2=Stream(chunk_tokens, n, _holders(chunks, window.engine, named_by or [0] * max(len(replica), 1))),
    )


def _holders(stems: Stems, engine: Int32Array, owners: Iterable[Hashable]) -> tuple[Holder, ...]:
    """One holder for each distinct owner; `owners[k]` owns the requests of engine k."""
    numbers: dict[Hashable, int] = {}
    owner_of = np.array([numbers.setdefault(owner, len(numbers)) for owner in owners], dtype=np.int32)
    owner = owner_of[engine]
    found = (np.flatnonzero(owner == number) for number in range(len(numbers)))
    return tuple(Holder(requests, stems) for requests in found if len(requests) or len(numbers) == 1)


def pass_through(streams: Iterable[Stream]) -> None:
    """Make the passes that all answers of some streams rest on together, the longest first."""
    holders = [holder for stream in streams for holder in stream.holders]
    holders.sort(key=lambda holder: len(holder.requests), reverse=True)
    for _ in _side_by_side(lambda holder: holder.runs, holders):
        pass


def _side_by_side(work: Callable[[S], T], of_holders: Sequence[S]) -> Iterator[T]:
    """Do the same for each holder, two at a time, in order: kernels run without Python's lock."""
    with ThreadPoolExecutor(HOLDERS_AT_ONCE) as pool:
        yield from pool.map(work, of_holders)


def _own(stream: Stream) -> Stream:
    """What remains of a stream when a holder keeps only the units it was the first of all to be asked for."""
    if not stream.holders:
        return stream
    holder_of = np.zeros(stream.requests, dtype=np.int32)
    for number, holder in enumerate(stream.holders):
        holder_of[holder.requests] = number
    own, leading = only_own(stream.holders[0].stems, holder_of)
    holders = tuple(Holder(holder.requests, own) for holder in stream.holders)
    return Stream(stream.unit_tokens, stream.requests, holders, leading)
