"""What a person should know of a source's input: what could not be placed, and what is known to lie.

An oddity is counted, with one example to show. A finding is a state: it holds until its source is read
again without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tierscope.domain.errors import TierscopeError
from tierscope.domain.identity import SourceId
from tierscope.domain.severity import Severity
from tierscope.registry.metrics import FINDING, UNKNOWN_INPUT
from tierscope.registry.types import Sample

MOST_KINDS = 32
"""Kinds of oddity kept apart for one source; a source that invents ever new ones fills the last, `other`."""

REPEAT_SECONDS = 60.0
"""Pause before the same oddity is said again."""


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something a source sent that we do not know or cannot use; the rest of the input was used.

    `what` is a short name, the same for every case of one kind; `error` explains one case to a person.
    """

    what: str
    error: TierscopeError
    count: int = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a source as of its latest reading: which number is suspect, what is used instead.

    `kind` is a short name, the same for every case of one kind; `error` explains this case to a person.
    """

    kind: str
    severity: Severity
    error: TierscopeError


class Repeats:
    """Lets a message through once, and the same again only after a pause."""

    def __init__(self, monotonic: Callable[[], float], repeat_seconds: float = REPEAT_SECONDS) -> None:
        self._monotonic = monotonic
        self._repeat_seconds = repeat_seconds
        self._said: dict[object, float] = {}

    def due(self, key: object) -> bool:
        """Whether the message of this key should be said now; saying yes starts its pause."""
        now = self._monotonic()
        said = self._said.get(key)
        if said is not None and now - said < self._repeat_seconds:
            return False
        self._said[key] = now
        return True

    def forget(self, key: object) -> None:
        """Let the message of this key through at once the next time."""
        self._said.pop(key, None)


class Oddities:
    """Counts oddities by source and kind, and tells each kind once, then at most once a minute.

    Findings are kept as of the latest reading of their source, and told when they are new.

    `tell` takes a message and its arguments like a logger's `warning`.
    """

    def __init__(self, tell: Callable[..., None], *, monotonic: Callable[[], float]) -> None:
        self._tell = tell
        self._repeats = Repeats(monotonic)
        self._counts: dict[SourceId, dict[str, int]] = {}
        self._findings: dict[SourceId, dict[str, Severity]] = {}
        self._lock = threading.Lock()

    def note(self, source: SourceId, oddities: Iterable[Oddity]) -> None:
        """Count what a reader met in one piece of input."""
        for oddity in oddities:
            with self._lock:
                counts = self._counts.setdefault(source, {})
                what = oddity.what if oddity.what in counts or len(counts) < MOST_KINDS - 1 else "other"
                counts[what] = counts.get(what, 0) + oddity.count
                total = counts[what]
                due = self._repeats.due((source, what))
            if due:
                self._tell("%s: %s, %d so far: %s", source, oddity.what, total, oddity.error.one_line())

    def hold(self, source: SourceId, findings: Iterable[Finding]) -> None:
        """Take what is wrong with a source now, in place of what was wrong with it before."""
        found = {finding.kind: finding for finding in findings}
        with self._lock:
            known = self._findings.get(source, {})
            self._findings[source] = {kind: finding.severity for kind, finding in found.items()}
        for kind in found.keys() - known.keys():
            self._tell("%s: %s", source, found[kind].error.one_line())

    def samples(self) -> Iterator[Sample]:
        """Yield the counts, and 1 for each finding."""
        with self._lock:
            counts = [(source, dict(kinds)) for source, kinds in self._counts.items()]
            findings = [(source, dict(kinds)) for source, kinds in self._findings.items()]
        for source, found in findings:
            for kind, severity in found.items():
                yield Sample(FINDING, (str(source), kind, severity), 1)
        for source, kinds in counts:
            for what, count in kinds.items():
                yield Sample(UNKNOWN_INPUT, (str(source), what), count)
