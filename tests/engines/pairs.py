"""A server with the probe against one without: bursts in alternating pairs, and how much is noise."""

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


def in_pairs(
    burst: Callable[[bool, int], tuple[float, ...]], names: Sequence[str], pairs: int
) -> list[Ratio]:
    """Send the same bursts to the server with the probe and to the one without, taking turns in going first.

    `burst` is told which of them and the number of the pair, and returns a figure for each of `names`. The
    later rows have no probe in them: they compare the server without one to itself a pair earlier, and so
    say how much of the others is noise.
    """
    took: dict[bool, list[tuple[float, ...]]] = {True: [], False: []}
    for pair in range(pairs):
        for probed in (True, False) if pair % 2 else (False, True):
            took[probed].append(burst(probed, pair))
    on, off = np.array(took[True]), np.array(took[False])
    return [
        *(_ratio(f"{name}, with / without", on[:, n] / off[:, n]) for n, name in enumerate(names)),
        *(
            _ratio(f"{name}, without / without a pair earlier", off[1:, n] / off[:-1, n])
            for n, name in enumerate(names)
        ),
    ]


def table(ratios: Sequence[Ratio]) -> list[str]:
    """Return the lines of a table."""
    return [
        "| ratio | pairs | median | 95 % interval | middle half |",
        "|---|---|---|---|---|",
        *(
            f"| {r.what} | {r.pairs} | {r.median:.3f} | {r.low:.3f} – {r.high:.3f} "
            f"| {r.lower_quartile:.3f} – {r.upper_quartile:.3f} |"
            for r in ratios
        ),
    ]


def _ratio(what: str, ratios: np.ndarray) -> Ratio:
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, size=(RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    lower, upper = np.quantile(ratios, [0.25, 0.75])
    numbers = map(float, (np.median(ratios), low, high, lower, upper))
    return Ratio(what, len(ratios), *numbers)
