"""The hook's record stream of one engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporters.admissions import Admissions
from exporters.oddities import Finding
from exporters.page_state import Told
from exporters.streams import StreamReading
from exporters.vllm.hook import decode_records
from exporters.wire import latest_time


@dataclass(slots=True)
class HookStream:
    """Reads hook records into request records."""

    admissions: Admissions
    where: str
    stale: bool = False
    findings: tuple[Finding, ...] = ()

    def message(self, payload: bytes, sequence: int) -> StreamReading:  # noqa: ARG002  records name themselves
        """Read one list of records; raises `BadInput`."""
        batch = decode_records(payload, where=self.where)
        outcome = self.admissions.apply(batch.records)
        return StreamReading(
            [*outcome.records],
            [*batch.oddities, *outcome.oddities],
            missing=outcome.dropped,
            records=len(batch.records),
            at_unix_seconds=latest_time(batch.records),
            told=outcome.told,
        )

    def lost(self) -> None:
        """Records were lost: admissions they would have resolved stay open until they are given up."""

    def restart(self, at_unix_seconds: float) -> StreamReading:  # noqa: ARG002  records have their own times
        """The engine began anew: what was open stays unresolved."""
        outcome = self.admissions.restart()
        return StreamReading([*outcome.records], outcome.oddities, told=outcome.told)

    @property
    def waiting(self) -> Sequence[Told]:
        """Admissions whose lookups have not come."""
        return self.admissions.waiting

    def settle(self, monotonic_seconds: float) -> StreamReading:
        """Tell what waited for its lookup."""
        outcome = self.admissions.settle(monotonic_seconds)
        return StreamReading([*outcome.records], outcome.oddities, told=outcome.told)
