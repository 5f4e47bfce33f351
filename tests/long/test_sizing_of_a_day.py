"""A day of traffic, sized: what it takes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.long_sample import SAMPLED

pytestmark = pytest.mark.long

SESSIONS = 10_000 if SAMPLED else 100_000
LEAST_BLOCKS = 1000
"""Of a session: 8 prompts of 60 to 200 blocks."""
MOST_BYTES_PER_ACCESS = 2**30 / 1e8


def test_a_hundred_million_accesses_are_sized_within_a_gibibyte():
    """Memory beside the window itself, and prints what it takes; a tenth of the sessions in a sample."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sized_day", str(SESSIONS)], check=True, capture_output=True, text=True
    )
    print(f"\n{ran.stdout}")
    accesses, _, held = (float(word) for word in ran.stdout.split()[:3])

    assert accesses > LEAST_BLOCKS * SESSIONS, "the day was not drawn"
    assert "recommend: [" in ran.stdout
    assert "tier_size" in ran.stdout, "no size was advised"
    assert "routers compared on" in ran.stdout
    assert held > 0
    assert held / accesses < MOST_BYTES_PER_ACCESS
