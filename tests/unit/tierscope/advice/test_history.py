"""How a window is cut: every request is in one slice, and what cannot be cut so is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.history import History
from tierscope.advice.thresholds import SLICES
from tierscope.analytics.attribution import joint_streams

FEWEST = 28
"""Requests of which 0.7, the measured ones, are just twenty."""


def test_every_measured_request_is_in_one_slice():
    """The fewest requests that fill the slices: one in each."""
    prompt = np.arange(1, FEWEST + 1)
    slices = History(prompt).measure(prompt).slices

    assert slices.total.tolist() == prompt[-SLICES:].tolist()
    assert slices.hits[:, 0].tolist() == prompt[-SLICES:].tolist()


@pytest.mark.parametrize("requests", [0, 1, FEWEST - 1])
def test_a_window_with_fewer_measured_requests_than_slices_is_refused(requests):
    """Some of them would be in several slices, and the interval surer than the window is."""
    prompt = np.full(requests, 10)

    with pytest.raises(ValueError, match="cannot be cut into 20 slices"):
        History(prompt).measure(prompt)


@pytest.mark.parametrize("requests", [59, 61])
def test_hits_of_another_window_are_refused(requests):
    """Longer ones would be cut in silence, their end counted with the last slice."""
    other = np.zeros(requests, dtype=np.int64)

    with pytest.raises(ValueError, match=f"{requests} requests are not those of 60"):
        History(np.full(60, 10)).measure(other)


@pytest.mark.parametrize("requests", [59, 61])
def test_a_stream_of_another_window_is_refused(requests):
    """The same of a tier that is measured at many sizes in one pass."""
    mine, other = w.window(w.cycle(4, 60)), w.window(w.cycle(4, requests))
    sizes, history = np.array([1, 2]), History(mine.prompt)
    stream, base = joint_streams(other, w.CHUNK_TOKENS).l1, np.zeros_like(mine.prompt)

    with pytest.raises(ValueError, match=f"{requests} requests are not those of 60"):
        history.measure_sizes(stream, base, sizes)
    with pytest.raises(ValueError, match=f"{requests} requests are not those of 60"):
        history.measure_sizes(joint_streams(mine, w.CHUNK_TOKENS).l1, np.zeros_like(other.prompt), sizes)
