"""Page-Hinkley: whether the mean of a stream of scores has risen, and since when.

The sum of (score - drift) falls while nothing is wrong; how far it stands above its lowest point is the
evidence, and that lowest point is where the change began. `threshold_for` tunes it by the run length one
accepts between false alarms, with the error of the calibration taken into account. Where the change began is
told by likelihood: the split of the evidence that a mean as high as the latest scores' explains best.
"""

from __future__ import annotations

import math

import numpy as np

from tierscope.domain.trace import FloatArray

LATEST = 20
"""Scores that tell how high the mean is now."""
OVERSHOOT = 1.166
"""Siegmund's correction for what a sum of normal scores exceeds its bound by."""
LEAST_DRIFT_SHARE = 0.25
"""However badly the mean is known, this much of the drift is counted on; less would never alarm."""


class PageHinkley:
    """One-sided; scores have mean 0 and variance 1 while nothing is wrong."""

    def __init__(self, drift: float, threshold: float) -> None:
        self.drift = drift
        self.threshold = threshold
        self.evidence = 0.0
        self._rising: list[float] = []
        """Scores since the evidence was last nothing."""

    def anew(self) -> PageHinkley:
        """Another one that watches for the same, of which nothing is known."""
        return PageHinkley(self.drift, self.threshold)

    def reset(self) -> None:
        """Begin anew."""
        self.evidence = 0.0
        self._rising.clear()

    def since_change(self) -> int:
        """How many of the latest scores came after the change, if there is one."""
        if not self._rising:
            return 0
        scores = np.array(self._rising)
        level = max(float(scores[-LATEST:].mean()), 2 * self.drift)
        # The sum of what the new mean explains better than the old, for each number of latest scores.
        gained = np.cumsum((scores - level / 2)[::-1])
        return int(gained.argmax()) + 1

    def feed(self, scores: FloatArray) -> int | None:
        """Take scores in order up to the one that raises the alarm; its index, or None."""
        for index, score in enumerate(scores.tolist()):
            self.evidence += score - self.drift
            self._rising.append(score)
            if self.evidence <= 0:
                self.reset()
            elif self.evidence > self.threshold:
                return index
        return None


def threshold_for(run_length: float, drift: float, error: float) -> float:
    """The bound that a stream without change exceeds once in `run_length` scores on average.

    `error` is the standard error of the mean that scores were centred with: the stream may really lie that
    much higher, twice over, and still keep its run length.
    """
    sure = max(drift - 2 * error, LEAST_DRIFT_SHARE * drift)
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        if _run_length(2 * sure * middle, sure) < run_length:
            low = middle
        else:
            high = middle
    return max(1.0, high - OVERSHOOT)


def _run_length(exponent: float, drift: float) -> float:
    if exponent > 200:
        return math.inf
    return (math.exp(exponent) - 1 - exponent) / (2 * drift * drift)
