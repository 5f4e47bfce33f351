"""Virtual time: faster than the wall until it has caught up, then the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VirtualClock:
    """Maps wall seconds since the start to virtual seconds since the virtual start, 0 to 0.

    Virtual time begins `behind_seconds` before the wall's and runs `speed` times as fast until both
    show the same; it is never ahead of the wall.
    """

    behind_seconds: float
    speed: float

    def virtual_seconds(self, wall_seconds: float) -> float:
        """Virtual seconds since the virtual start."""
        return min(wall_seconds * self.speed, wall_seconds + self.behind_seconds)

    def wall_seconds(self, virtual_seconds: float) -> float:
        """Wall seconds since the start at which virtual time shows this."""
        return max(virtual_seconds / self.speed, virtual_seconds - self.behind_seconds)
