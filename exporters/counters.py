"""Growth of a source's cumulative counters between two readings, over the source's restarts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Growth(Generic[K]):
    """What each counter grew by, never negative; `restarted` says that they began anew in between."""

    by: Mapping[K, int]
    restarted: bool = False


@dataclass(slots=True)
class Counters(Generic[K]):
    """Remembers the last reading of counters that begin anew together.

    They began anew when any of them fell, or when `created` (any mark of their beginning, such as a start
    time) changed; what was counted between the last reading and the restart is lost. A counter that was
    absent before counts from 0, one that is absent now keeps its value.
    """

    from_zero: bool = False
    """Whether the first reading counts too, because all of it is known to be new."""
    _last: dict[K, int] = field(default_factory=dict)
    _created: object = None
    _begun: bool = False

    def advance(self, values: Mapping[K, int], created: object = None) -> Growth[K] | None:
        """Take a reading; None for the first one, unless it counts: later ones are measured against it."""
        begun, self._begun = self._begun or self.from_zero, True
        restarted = begun and (
            (None not in (created, self._created) and created != self._created)
            or any(value < self._last.get(key, 0) for key, value in values.items())
        )
        if restarted:
            self._last.clear()
        growth = {key: value - self._last.get(key, 0) for key, value in values.items()}
        self._last.update(values)
        self._created = created if created is not None else self._created
        return Growth(growth, restarted) if begun else None
