"""Prometheus' text format as the engines' client libraries write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Labels = Mapping[str, str]
NO_LABELS: Labels = {}


class Exposition:
    """A page under construction. `floats` prints every value as Python's client does: 12 as 12.0."""

    def __init__(self, *, floats: bool) -> None:
        self._floats = floats
        self._lines: list[str] = []

    def family(self, name: str, kind: str, help_text: str, samples: Sequence[tuple[Labels, float]]) -> None:
        """Add a counter or gauge as named, with all its samples."""
        self._head(name, kind, help_text)
        self._lines += [f"{name}{_braces(labels)} {self._number(value)}" for labels, value in samples]

    def histogram(
        self,
        name: str,
        help_text: str,
        labels: Labels,
        *,
        edges: Sequence[float],
        counts: Sequence[int],
        total: float,
    ) -> None:
        """Add a histogram of one series from its counts per bucket, +Inf last."""
        self._head(name, "histogram", help_text)
        seen = 0
        for edge, count in zip((*map(str, edges), "+Inf"), counts, strict=True):
            seen += count
            self._lines.append(f"{name}_bucket{_braces({**labels, 'le': edge})} {self._number(seen)}")
        self._lines.append(f"{name}_count{_braces(labels)} {self._number(seen)}")
        self._lines.append(f"{name}_sum{_braces(labels)} {self._number(total)}")

    def page(self, *, garbage_lines: int = 0) -> bytes:
        """Return the page; garbage, where asked for, stands between its families."""
        lines = list(self._lines)
        heads = [index for index, line in enumerate(lines) if line.startswith("# HELP")]
        for number in range(garbage_lines):
            lines.insert(heads[number % len(heads)], f"}}{{ garbage no {number} \x01 =\u00ff")
        return ("\n".join(lines) + "\n").encode()

    def _head(self, name: str, kind: str, help_text: str) -> None:
        self._lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]

    def _number(self, value: float) -> str:
        if self._floats:
            return repr(float(value))
        return str(int(value)) if float(value).is_integer() else repr(value)


def _braces(labels: Labels) -> str:
    """Labels in the order of their names, as both client libraries print them."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
