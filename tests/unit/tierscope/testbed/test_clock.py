"""Virtual time against the wall's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.testbed.clock import VirtualClock

spans = st.floats(0, 1e6)
speeds = st.floats(1, 1e4)


@given(spans, speeds, spans, spans)
def test_virtual_time_never_runs_back_and_is_never_ahead_of_the_wall(behind, speed, one, other):
    """It begins behind the wall, only rises, and never overtakes."""
    clock = VirtualClock(behind, speed)
    early, late = sorted((one, other))

    assert clock.virtual_seconds(early) <= clock.virtual_seconds(late)
    assert clock.virtual_seconds(late) - behind <= late + 1e-6


def test_it_catches_up_and_then_keeps_pace():
    """An hour at 61 times the speed takes a minute; from then on a second is a second."""
    clock = VirtualClock(behind_seconds=3600.0, speed=61.0)

    assert clock.virtual_seconds(60.0) == pytest.approx(3660.0)
    assert clock.virtual_seconds(70.0) == pytest.approx(3670.0)
