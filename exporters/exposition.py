"""Prometheus text pages, read fast: most lines of a page are series that the last page had too.

The text of a series (`name{labels}`) is the key of a cache, so that a line seen before costs one lookup
and one number. Whatever is not such a line takes the careful path, and is either understood there,
or counted as garbage.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from tierscope.domain.errors import BadInput

MOST_SERIES = 200_000
"""Series remembered by one cache before it starts anew; bounds memory when labels never repeat."""

_PAIR = r'[ \t]*[a-zA-Z_][a-zA-Z0-9_]*[ \t]*=[ \t]*"(?:[^"\\]|\\.)*"[ \t]*'
_LINE = re.compile(
    r"[ \t]*(?P<series>(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    rf"(?:[ \t]*(?P<labels>\{{(?:{_PAIR},)*(?:{_PAIR})?[ \t]*\}}))?)"
    r"[ \t]+(?P<value>[^ \t{}]+)(?:[ \t]+-?\d+)?[ \t\r]*"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
_NOT_TEXT = re.compile("[\udc80-\udcff]")
"""What bytes that are not UTF-8 become, and no text contains."""
_ESCAPED = re.compile(r'\\[\\n"]')
_UNESCAPED = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A metric's name and labels. One cache returns the same object for the same text."""

    name: str
    labels: Mapping[str, str]


@dataclass(slots=True)
class SeriesCache:
    """Series by their text, kept from one page of a source to its next."""

    series: dict[str, Series] = field(default_factory=dict)

    def remember(self, text: str, series: Series) -> Series:
        """Keep a series under its text, starting anew when the cache is full; returns the one to use."""
        if len(self.series) >= MOST_SERIES:
            self.series.clear()
        return self.series.setdefault(text, series)


@dataclass(slots=True)
class Exposition:
    """One page: series and values in page order (equal lengths), and what could not be read.

    `garbage` names the first unreadable line; `garbage_lines` counts them all. So does `repeat` for lines
    of a series that the page had before.
    """

    series: list[Series]
    values: list[float]
    garbage_lines: int = 0
    garbage: BadInput | None = None
    repeated_lines: int = 0
    repeat: BadInput | None = None
    _by_name: dict[str, dict[Series, float]] | None = None

    def named(self, name: str) -> Mapping[Series, float]:
        """Return the values of one name by series, empty where the page has none.

        A series that a page repeats counts once, with its last value.
        """
        return self._index().get(name, {})

    @property
    def names(self) -> Set[str]:
        """Every name on the page."""
        return self._index().keys()

    def _index(self) -> dict[str, dict[Series, float]]:
        if self._by_name is None:
            self._by_name = {}
            for series, value in zip(self.series, self.values, strict=True):
                self._by_name.setdefault(series.name, {})[series] = value
        return self._by_name

    def total(self, name: str) -> float | None:
        """Return the sum of a name over all labels, None where the page has none or one is no number."""
        found = self.named(name)
        value = sum(found.values()) if found else math.nan
        return value if math.isfinite(value) else None


def parse_exposition(page: bytes | str, *, where: str, cache: SeriesCache | None = None) -> Exposition:
    """Read a page in the Prometheus text format. Unreadable lines are counted, never raised.

    `where` is the page's address, for the message about the first garbage line. Comments, types and
    timestamps are skipped.
    """
    cache = cache or SeriesCache()
    lines = (page if isinstance(page, str) else page.decode("utf-8", "surrogateescape")).split("\n")
    known = cache.series.get
    all_series: list[Series] = []
    values: list[float] = []
    garbage: list[str] = []
    for line in lines:
        cut = line.rfind(" ")
        series = known(line[:cut])
        value_text = line[cut + 1 :]
        if series is None:
            if not line or line[0] == "#":
                continue
            careful = _read_carefully(line, cache)
            if careful is None:
                if line.strip() and not line.lstrip().startswith("#"):
                    garbage.append(line)
                continue
            series, value_text = careful
        try:
            value = float(value_text)
        except ValueError:
            garbage.append(line)
            continue
        if "_" in value_text:  # Python's float reads 1_0, Prometheus does not
            garbage.append(line)
            continue
        all_series.append(series)
        values.append(value)
    error = _first_garbage(garbage[0], lines, where) if garbage else None
    repeated = len(all_series) - len(set(all_series))
    repeat = _first_repeat(all_series, where) if repeated else None
    return Exposition(all_series, values, len(garbage), error, repeated, repeat)


def _read_carefully(line: str, cache: SeriesCache) -> tuple[Series, str] | None:
    """Return the series and the text of the value, None where the line is no sample."""
    match = _LINE.fullmatch(line)
    if match is None or _NOT_TEXT.search(match["series"]):
        return None
    labels: dict[str, str] = {}
    for name, value in _LABEL.findall(match["labels"] or ""):
        if name in labels:
            return None
        labels[name] = _ESCAPED.sub(lambda found: _UNESCAPED[found.group()], value)
    return cache.remember(match["series"], Series(match["name"], labels)), match["value"]


def _first_garbage(line: str, lines: list[str], where: str) -> BadInput:
    shown = line if len(line) <= 120 else line[:117] + "..."
    return BadInput(
        f"line {lines.index(line) + 1} of a metrics page cannot be read: {shown!r}",
        where=where,
        fix="check that the address serves Prometheus text; the rest of the page was used",
    )


def _first_repeat(all_series: list[Series], where: str) -> BadInput:
    series, times = Counter(all_series).most_common(1)[0]
    return BadInput(
        f"a metrics page tells {series.name}{dict(series.labels)} {times} times; its last value was used",
        where=where,
        fix="two things behind this address share one set of labels, so their numbers cannot be told apart",
    )
