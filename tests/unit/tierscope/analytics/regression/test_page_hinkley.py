"""Page-Hinkley finds a risen mean, tells when it rose, and keeps its run length."""

from __future__ import annotations

import numpy as np
import pytest

from tierscope.analytics.regression.page_hinkley import PageHinkley, threshold_for


def test_a_risen_mean_is_found_and_dated():
    """The change lies within a few scores of where it was put."""
    rng = np.random.default_rng(1)
    test = PageHinkley(0.25, threshold_for(1e6, 0.25, 0.0))
    assert test.feed(rng.normal(0, 1, 3000)) is None

    alarm = test.feed(rng.normal(0.6, 1, 3000))

    assert alarm is not None
    assert abs(test.since_change() - (alarm + 1)) < 40


def test_a_fallen_mean_and_single_outliers_are_none():
    """One-sided, and no single score can carry an alarm."""
    test = PageHinkley(0.25, threshold_for(1e6, 0.25, 0.0))

    assert test.feed(np.full(5000, -1.0)) is None
    assert test.feed(np.array([4.0])) is None


@pytest.mark.parametrize("drift", [0.15, 0.5])
def test_the_run_length_is_what_was_asked_for(drift):
    """Between false alarms lie about as many scores as wanted: within a factor of two."""
    rng = np.random.default_rng(2)
    wanted = 2000
    test = PageHinkley(drift, threshold_for(wanted, drift, 0.0))
    scores = rng.normal(0, 1, 200_000)
    alarms, at = 0, 0
    while (found := test.feed(scores[at:])) is not None:
        alarms, at = alarms + 1, at + found + 1
        test.reset()

    assert wanted / 2 < len(scores) / alarms < 2 * wanted


def test_a_mean_that_is_badly_known_asks_for_more_evidence():
    """And never for endless evidence."""
    sure, unsure, lost = (threshold_for(1e6, 0.2, error) for error in (0.0, 0.05, 10.0))

    assert sure < unsure < lost < 1000
