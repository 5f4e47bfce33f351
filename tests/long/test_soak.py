"""A hundred engines, twenty requests a second each, for 25 minutes; then trouble.

    make long ARGS="tests/long/test_soak.py -s"            # three quarters of an hour
    TIERSCOPE_SOAK=40,20 make long ARGS="…"                 # so many engines, so many steady minutes
    TIERSCOPE_LONG=sample … tests/long/test_soak.py -s      # eight engines, a few seconds of each

Engines speak from recordings made before (`tests/load/frames.py`). What is printed goes into
docs/measurements.md; what is asserted is that nothing is lost that is not counted, and that nothing grows
that should not.
"""

from __future__ import annotations

import os
import time
from contextlib import nullcontext

import numpy as np
import pytest

from tests.exporting import await_true
from tests.load.slow_disk import can_throttle, slow_disk
from tests.load.system import Size, System
from tests.long_sample import SAMPLED
from tierscope.domain.requests import NO_TOKENS

pytestmark = [pytest.mark.long, pytest.mark.system]

ENGINES, MINUTES = map(int, os.environ.get("TIERSCOPE_SOAK", "100,25").split(","))
SIZE = (
    Size(engines=8, nodes=2, endpoints=2, cycles=1000, cycle_seconds=10)
    if SAMPLED
    else Size(engines=ENGINES, nodes=-(-ENGINES // 8), endpoints=5, cycles=1000, cycle_seconds=60)
)
"""Eight engines a node, as a machine with eight GPUs has; blocks are shared by four."""
STEADY_SECONDS = 9.0 if SAMPLED else 60.0 * MINUTES
LOOK_SECONDS = 3.0 if SAMPLED else 60.0
PHASE_SECONDS = 1.0 if SAMPLED else 60.0
BURST_SECONDS = 1.0 if SAMPLED else 10.0
WARM_MINUTES = 15
"""After which an exporter remembers as many blocks of each engine as it ever will."""
SLOW_BYTES_PER_SECOND = 1_000_000
SETTLE_SECONDS = 60.0 if SAMPLED else 900.0
MOST_GROWTH = 1.25
"""Of resident memory, between the minutes after the warm-up and the end of the steady part."""


@pytest.fixture
def system(tmp_path, repository, system_binary):
    """Everything up, and engines that wait."""
    prometheus = system_binary("prometheus", package="prometheus")
    with System(SIZE, tmp_path, repository, prometheus) as running:
        yield running


def test_a_hundred_engines_and_then_trouble(system, capsys):
    """Store, pages and what the engines sent are equal in the end, to the token."""
    with capsys.disabled():
        print(f"\n{SIZE}, {os.cpu_count()} cores")
        system.engines.order("go")
        steady(system)
        trouble(system)
        system.engines.order("stop")
        settle(system)
        told(system)

    assert len(system.endpoints) == SIZE.endpoints
    for name in system.endpoints:
        assert system.engines.sent(name).prompt > 0
        assert system.stored(name) == system.engines.sent(name)
    assert system.scraped() == sum(map(system.engines.sent, system.endpoints), NO_TOKENS)
    assert system.reader.row_counts()["requests"] == system.engines.rows()
    assert system.completeness() == 1.0
    assert system.answers, "nobody asked"
    assert set(system.answers) <= {"200", "404"}, system.answers
    assert {"steady", "ten times the rate", "right", "settled"} <= {row.phase for row in system.table.rows}
    if not SAMPLED and MINUTES > WARM_MINUTES + 6:
        assert set(grown(system)) == set(system.table.groups)
        assert not [name for name, growth in grown(system).items() if growth > MOST_GROWTH], grown(system)


def watch(system, phase, seconds):
    """Look again and again, printing as it goes."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(LOOK_SECONDS, left))
        line = system.look(phase)
        if len(system.table.rows) == 1:
            print(system.table.head(system.table.rows[0]))
        print(line)


def steady(system):
    """Every engine at its usual rate."""
    watch(system, "steady", STEADY_SECONDS)


def trouble(system):
    """Bursts, an engine that hangs, a slow disk, and clocks that jump; traffic goes on all the time."""
    for _ in range(2):
        system.engines.order("rate 10")
        watch(system, "ten times the rate", BURST_SECONDS)
        system.engines.order("rate 1")
        watch(system, "after it", PHASE_SECONDS)
    system.engines.order("hang 3")
    watch(system, "an engine hangs", PHASE_SECONDS)
    system.engines.order("wake 3")
    watch(system, "it is back", PHASE_SECONDS)
    slow = slow_disk(system.collector_pid, system.store, SLOW_BYTES_PER_SECOND)
    with slow if can_throttle() else nullcontext():
        watch(system, "1 MB/s disk" if can_throttle() else "(no throttle here)", PHASE_SECONDS)
    watch(system, "the disk is back", PHASE_SECONDS)
    for shift, name in ((3600, "clocks +1 h"), (-3600, "clocks -1 h"), (-1, "a second again"), (0, "right")):
        system.engines.order(f"shift {shift}")
        watch(system, name, PHASE_SECONDS)


def settle(system):
    """Until the last cycle is over and the store has every request of it."""
    await_true(
        lambda: system.engines.said.get("done"), "engines have said all", patience_seconds=SETTLE_SECONDS
    )
    began = time.monotonic()
    await_true(
        lambda: all(system.stored(name) == system.engines.sent(name) for name in system.endpoints),
        "the store has everything",
        patience_seconds=SETTLE_SECONDS,
    )
    system.look("settled")
    print(f"the store had everything {time.monotonic() - began:.1f} s after the last record")


def grown(system):
    """How much memory each group holds at the end of the steady part, next to what it held once warm."""
    rows = [row for row in system.table.rows if row.phase == "steady"]
    warm, end = rows[WARM_MINUTES : WARM_MINUTES + 3], rows[-3:]
    return {
        name: float(
            np.mean([row.resident_bytes[name] for row in end])
            / np.mean([row.resident_bytes[name] for row in warm])
        )
        for name in system.table.groups
    }


def told(system):
    """The sums at the end, and what cannot be read from the rows."""
    rows = system.engines.rows()
    counts = system.reader.row_counts()
    said = system.engines.said
    print(
        f"{rows:,} requests, {counts}, answers {dict(system.answers)}; "
        f"engines used {said['cpu_seconds']:.0f} s of a core; "
        f"rules {system.rules_seconds():.2f} s an evaluation; "
        f"{sum(map(system.stored, system.endpoints), NO_TOKENS)} stored"
    )
    if not SAMPLED and MINUTES > WARM_MINUTES + 6:
        print(f"memory at the end of the steady part to that when warm: {grown(system)}")
