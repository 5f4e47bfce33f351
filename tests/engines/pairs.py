"""Servers with and without the probe, sent the same bursts in turn: ratios of what they took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """Paired ratios: their median with its 95 % bootstrap interval, and the middle half of them."""

    what: str
    pairs: int
    median: float
    low: float
    high: float
    lower_quartile: float
    upper_quartile: float


def in_turn(
    kinds: Sequence[str], burst: Callable[[str, int], tuple[float, ...]], rounds: int, *, first: int = 0
) -> dict[str, np.ndarray]:
    """Send the same bursts to servers of several kinds, taking turns in going first.

    `burst` is told which of them and the number of the round, and returns its figures. Returns (rounds,
    figures) of each kind.
    """
    took: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in kinds}
    for number in range(first, first + rounds):
        turn = number % len(kinds)
        for kind in (*kinds[turn:], *kinds[:turn]):
            took[kind].append(burst(kind, number))
    return {kind: np.array(figures) for kind, figures in took.items()}


def ratios(names: Sequence[str], what: str, above: np.ndarray, below: np.ndarray) -> list[Ratio]:
    """Compare each of the figures; `what` says which servers stand above and below the line."""
    return [_ratio(f"{name}, {what}", above[:, n] / below[:, n]) for n, name in enumerate(names)]


def table(rows: Sequence[Ratio]) -> list[str]:
    """Return the lines of a table."""
    return [
        "| ratio | pairs | median | 95 % interval | middle half |",
        "|---|---|---|---|---|",
        *(
            f"| {r.what} | {r.pairs} | {r.median:.3f} | {r.low:.3f} – {r.high:.3f} "
            f"| {r.lower_quartile:.3f} – {r.upper_quartile:.3f} |"
            for r in rows
        ),
    ]


def _ratio(what: str, ratios: np.ndarray) -> Ratio:
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, size=(RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    lower, upper = np.quantile(ratios, [0.25, 0.75])
    numbers = map(float, (np.median(ratios), low, high, lower, upper))
    return Ratio(what, len(ratios), *numbers)
