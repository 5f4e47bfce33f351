"""Running totals owner by owner: an engine and a cache server each have their own, and take them along.

What a pod counted last must still be scraped, but series of every pod that ever was would pile up: see
docs/decisions. Not thread-safe: the ledger holds the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from exporters.tenants import TenantTotals
from exporters.totals import Totals
from tierscope.domain.events import BlockEvent, EngineTokens, LedgerEntry, SourceCoverage
from tierscope.domain.identity import EngineId, SourceId
from tierscope.domain.pool import PoolFiles
from tierscope.domain.requests import RequestRecord
from tierscope.registry.types import Sample

KEEP_SECONDS = 900.0
"""How long the series of an owner that is gone stay, from its last entry on: several scrapes of any pace."""

FEWEST_READS = 2
"""Times the totals are read before they go at the least: a reader that is down for long misses nothing."""


@dataclass(slots=True)
class _Gone:
    """An owner that left: since when nothing of it came, and how often its totals were read after that."""

    since_seconds: float
    reads: int = 0


class OwnedTotals:
    """The totals of everyone, and who of them is gone. `monotonic` gives seconds.

    Those by tenant are of whole endpoints, and stay.
    """

    def __init__(self, monotonic: Callable[[], float], tenant_series: int = 0) -> None:
        self._monotonic = monotonic
        self._tenants = TenantTotals(tenant_series)
        self._of: dict[str, Totals] = {}
        self._gone: dict[str, _Gone] = {}

    def count(self, source: SourceId, entry: LedgerEntry) -> None:
        """Add one entry of a source to its owner's totals."""
        if (totals := self._owned(entry)) is not None:
            totals.count(source, entry)
        if isinstance(entry, RequestRecord) and entry.counts:
            self._tenants.count(entry)

    def remember(self, source: SourceId, entry: LedgerEntry) -> None:
        """Take what an entry of a time before the page's says about later ones; it is not counted."""
        if (totals := self._owned(entry)) is not None:
            totals.remember(source, entry)

    def forget_readings(self, source: SourceId) -> None:
        """Drop what a source said last."""
        for totals in self._of.values():
            totals.forget_readings(source)

    def left(self, owner: EngineId | str) -> None:
        """An owner is gone; its totals follow it in a while.

        With an engine goes its whole replica: its page names ranks that nobody set up.
        """
        for name in self._all_of(owner, self._of):
            self._gone[name] = _Gone(self._monotonic())

    def came(self, owner: EngineId | str) -> None:
        """An owner is there, perhaps again: its totals go on from where they are."""
        for name in self._all_of(owner, self._gone):
            self._gone.pop(name, None)

    def samples(self) -> Iterator[Sample]:
        """Yield the present totals and readings; then let go of what was read often enough."""
        for totals in self._of.values():
            yield from totals.samples()
        yield from self._tenants.samples()
        now = self._monotonic()
        for owner, gone in tuple(self._gone.items()):
            gone.reads += 1
            if gone.reads >= FEWEST_READS and now - gone.since_seconds >= KEEP_SECONDS:
                self._of.pop(owner, None)
                del self._gone[owner]

    @staticmethod
    def _all_of(owner: EngineId | str, known: Iterable[str]) -> list[str]:
        if isinstance(owner, str):
            return [owner]
        replica = str(owner).removesuffix(str(owner.rank))
        return [str(owner), *(name for name in known if name.startswith(replica) and name != str(owner))]

    def _owned(self, entry: LedgerEntry) -> Totals | None:
        owner = _owner(entry)
        if owner is None:
            return None
        if owner in self._gone:  # it was published late, and is to be read as long as anything else
            self.left(owner)
        totals = self._of.get(owner)
        if totals is None:  # `setdefault` would make new ones for every entry
            totals = self._of[owner] = Totals()
        return totals


def _owner(entry: LedgerEntry) -> str | None:
    """Whose totals an entry adds to; None for what adds to nobody's."""
    if isinstance(entry, BlockEvent):  # first: most entries are
        return entry.holder
    match entry:
        case RequestRecord() | EngineTokens():
            return str(entry.engine)
        case SourceCoverage() | PoolFiles():
            return None
        case _:
            return entry.holder
