"""A deployment of the testbed with prices: what its misses cost, counted look by look as requests come in."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from collectors.complaints import Complaints
from collectors.misses import LATE_SECONDS, MissCounter
from tests.fleet_records import run_fleet
from tierscope.advice.explain import explain
from tierscope.domain.deployment import Objective
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.window import Evidence, TimeSpan
from tierscope.domain.wiring import Wiring
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

INSTANCE = InstanceFigures(name="ml.example", price_per_hour=7.2)
CONFIG = TestbedConfig(
    duration_seconds=900.0,
    replicas=2,
    objective=Objective(prices=Prices(currency="EUR", instances=(INSTANCE,))),
)
BEGIN_SECONDS, END_SECONDS, LOOK_SECONDS = 300.0, 900.0, 60.0
ROWS = (
    "at_unix_seconds", "engine", "model", "session", "prompt", "l0", "l1", "l2", "external", "computed",
    "queue_seconds", "load_seconds", "ttft_seconds",
)  # fmt: skip


class StoredSoFar:
    """A reader that has what was admitted before the end of the span it is asked for."""

    def __init__(self, whole: Evidence) -> None:
        self._whole = whole

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        window = self._whole.window
        known = int(np.searchsorted(window.at_unix_seconds, span.end_unix_seconds))
        rows = {name: getattr(window, name)[:known] for name in ROWS}
        hashes = window.block_hashes[: window.offsets[known]]
        return replace(
            self._whole,
            window=replace(
                window, span=span, **rows, offsets=window.offsets[: known + 1], block_hashes=hashes
            ),
        )


@pytest.fixture(scope="module")
def stored() -> StoredSoFar:
    """A quarter of an hour of the testbed's own traffic."""
    return StoredSoFar(run_fleet(CONFIG))


def test_money_counted_look_by_look_is_what_the_explanation_says_of_it_all(stored):
    """Every token once; seconds within a tenth, for each look has its own price of a token; money follows."""
    deployment = replace(Testbed(CONFIG).deployment(), wiring=Wiring(instance_types=(INSTANCE.name,)))
    clock = [BEGIN_SECONDS + LATE_SECONDS]
    counting = MissCounter(
        stored,
        lambda: [deployment],
        Complaints(lambda: 0.0),
        window_seconds=END_SECONDS,
        clock=lambda: clock[0],
        monotonic=lambda: 0.0,
        turn=nullcontext(),
    )
    while clock[0] <= END_SECONDS + LATE_SECONDS:
        counting.look()
        clock[0] += LOOK_SECONDS

    span = TimeSpan(BEGIN_SECONDS, END_SECONDS)
    who = deployment.namespace, deployment.endpoint
    misses = explain(stored.evidence(*who, span), deployment, who, span).misses
    told = {metric: {} for metric in (MISS_TOKENS, MISS_SECONDS, MISS_COST)}
    for sample in counting.samples():
        told[sample.metric][sample.labels[2]] = sample.value
    assert sum(told[MISS_TOKENS].values()) == sum(misses.causes.values()) > 100_000
    assert sum(told[MISS_SECONDS].values()) == pytest.approx(sum(misses.seconds.values()), rel=0.1)
    assert told[MISS_COST] == {
        cause: pytest.approx(took * INSTANCE.price_per_hour / 3600)
        for cause, took in told[MISS_SECONDS].items()
    }
