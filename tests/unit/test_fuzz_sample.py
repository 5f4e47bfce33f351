"""A sample of what `tests/long` throws at every reader of bytes: nothing crashes, all is counted."""

from __future__ import annotations

import random

import pytest

from tests.fuzzing import TARGETS, mutations

SAMPLE = 1_250
"""Mutations a reader."""


@pytest.mark.parametrize("name", TARGETS)
def test_real_bytes_are_read_whole(name):
    """The seeds themselves hold what must hold."""
    for seed in TARGETS[name].seeds():
        TARGETS[name].check(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_crash_no_reader(name):
    """Refused by name or read in part, with a count of the rest; the same bytes each time."""
    target = TARGETS[name]

    for data in mutations(target.seeds(), SAMPLE // target.slow, random.Random(f"sample of {name}")):
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"{name}: {data!r}")
            raise
