"""What processes use, read from /proc, and a table of it over time."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.memory import resident_bytes
from tests.processes import tree

TICKS = os.sysconf("SC_CLK_TCK")
CORE = 100.0


def used(pids: Iterable[int], apart: Collection[int]) -> tuple[float, int]:
    """Processor seconds so far of processes and what is below them but `apart`, and bytes resident now."""
    seconds, resident = 0.0, 0
    for root in pids:
        for pid in tree(root, apart):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                resident += resident_bytes(pid)
            except OSError:
                continue
            seconds += sum(map(int, fields[11:13])) / TICKS
    return seconds, resident


def disk_bytes(folder: Path) -> int:
    """Bytes of the files of a folder."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


@dataclass(slots=True)
class Row:
    """One look: what each group used since the last, and what it holds."""

    phase: str
    at_seconds: float
    load: float
    core_share: dict[str, float]
    resident_bytes: dict[str, int]
    values: dict[str, float]


@dataclass(slots=True)
class Table:
    """Looks at groups of processes over time. What a process that has ended used is not in it."""

    groups: Mapping[str, list[int]]
    rows: list[Row] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _last: dict[str, tuple[float, float]] = field(default_factory=dict)

    def look(self, phase: str, **values: float) -> Row:
        """Add a row."""
        now = time.monotonic()
        shares, resident = {}, {}
        for name, pids in self.groups.items():
            others = {pid for group in self.groups.values() if group is not pids for pid in group}
            seconds, resident[name] = used(pids, others)
            before, at = self._last.get(name, (seconds, now))
            shares[name] = CORE * (seconds - before) / (now - at) if now > at else 0.0
            self._last[name] = (seconds, now)
        row = Row(phase, now - self._began, os.getloadavg()[0], shares, resident, values)
        self.rows.append(row)
        return row

    def line(self, row: Row) -> str:
        """A row as it stands in the documents."""
        shares = " / ".join(f"{row.core_share[name]:.0f}" for name in self.groups)
        resident = " / ".join(f"{row.resident_bytes[name] / 1e6:.0f}" for name in self.groups)
        values = " | ".join(f"{value:,.6g}" for value in row.values.values())
        return (
            f"| {row.phase} | {row.at_seconds / 60:.1f} | {row.load:.0f} | {shares} | {resident} | {values} |"
        )

    def head(self, row: Row) -> str:
        """The table's head."""
        names = " / ".join(self.groups)
        columns = ["phase", "minute", "load", f"% of a core: {names}", f"MB: {names}", *row.values]
        return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
