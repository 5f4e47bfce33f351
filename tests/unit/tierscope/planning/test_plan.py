"""What a given size takes: sums of measured costs, and a collector that catches up as fast as it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.domain.errors import BadInput
from tierscope.planning.coefficients import Coefficients, Cost
from tierscope.planning.plan import BUSIEST, Workload, largest_share, plan

NOTHING = Cost(0.0, 0.0, 0.0)


def test_rates_follow_from_the_workload():
    """1,600 of 8,000 prompt tokens computed and 400 answered: 100 new blocks, 125 + 2 x 7.8 stored."""
    workload = Workload(10, 2.0, computed_ratio=0.2, answer_tokens=400.0)

    assert workload.nodes == 2
    assert workload.admissions_a_second == 20
    assert workload.new_blocks_a_second == 2_000
    assert workload.block_events_a_second == pytest.approx(20 * 2 * (2_000 / 16 + 2 * 2_000 / 256))


def test_costs_are_the_measured_ones_times_the_rates():
    """Bytes of the feed and of a day, seconds of exporters and collectors."""
    workload = Workload(8, 1.0, computed_ratio=0.0, answer_tokens=0.0)
    found = plan(workload, Coefficients(Cost(0.01, 0, 0), Cost(0.02, 0, 0), Cost(100, 0, 0), Cost(10, 0, 0)))

    assert found.exporter_cores == pytest.approx(0.08)
    assert (found.stores, found.collector_cores) == (1, pytest.approx(0.16))
    assert found.feed_bytes_a_second == 800
    assert found.stored_bytes(days=2) == pytest.approx(8 * 10 * 2 * 86_400)


@given(nodes=st.integers(1, 400), cores=st.floats(0.001, 0.4))
def test_no_collector_has_more_than_it_may_and_one_fewer_would(nodes, cores):
    """`cores` are those of one exporter's rows."""
    costs = Coefficients(NOTHING, Cost(cores, 0.0, 0.0), NOTHING, NOTHING)
    workload = Workload(nodes, 1.0, engines_a_node=1)
    found = plan(workload, costs)

    assert found.collector_cores <= BUSIEST
    if found.stores > 1:
        assert cores * nodes * largest_share(workload, found.stores - 1) > BUSIEST


def test_processes_are_planned_for_full_nodes_and_sums_for_all():
    """Nine engines at eight a node: one exporter has eight, and so has the collector of its store."""
    free = Coefficients(NOTHING, NOTHING, NOTHING, NOTHING)
    costs = replace(free, exporter_seconds=Cost(0.1, 0, 0), collector_seconds=Cost(0.06, 0, 0))
    found = plan(Workload(9, 1.0), costs)

    assert found.exporter_cores == pytest.approx(0.8)
    assert (found.stores, found.collector_cores) == (2, pytest.approx(0.48))
    assert found.cores == pytest.approx(9 * 0.16)


@pytest.mark.parametrize(("place", "seconds"), [("exporter_seconds", 0.15), ("collector_seconds", 0.08)])
def test_a_full_node_is_refused_whatever_the_others_have(place, seconds):
    """Eight engines are too many; that the ninth is alone on its node does not make them fewer."""
    costs = replace(Coefficients(NOTHING, NOTHING, NOTHING, NOTHING), **{place: Cost(seconds, 0.0, 0.0)})

    with pytest.raises(BadInput, match="engines_a_node of 8"):
        plan(Workload(9, 1.0), costs)


@pytest.mark.parametrize("place", ["exporter_seconds", "collector_seconds"])
def test_an_exporter_of_too_many_engines_is_refused(place):
    """It has one core, and a collector is given one exporter at least; the error says what to change."""
    free = Coefficients(NOTHING, NOTHING, NOTHING, NOTHING)
    with pytest.raises(BadInput, match="engines_a_node of 8") as refused:
        plan(Workload(80, 100.0), replace(free, **{place: Cost(0.002, 0.0, 0.0)}))

    assert "fewer engines" in refused.value.fix


@pytest.mark.parametrize(
    ("name", "value"), [("engines", 0), ("computed_ratio", 1.5), ("requests_a_second", float("inf"))]
)
def test_numbers_that_no_deployment_has_are_refused(name, value):
    """By name."""
    with pytest.raises(BadInput, match=f"{name} of"):
        Workload(**{"engines": 1, "requests_a_second": 1.0} | {name: value})


def test_a_collector_catches_up_as_fast_as_planned():
    """Bursty rows, served second by second: the backlog of ten minutes is gone when the plan says so."""
    rng = np.random.default_rng(7)
    costs = Coefficients(NOTHING, Cost(0.002, 0.0, 0.0), NOTHING, NOTHING)
    found = plan(Workload(1, 200.0, engines_a_node=1), costs)
    away_seconds = 600
    finished = []
    for _ in range(50):
        work_seconds = rng.poisson(200.0, away_seconds).sum() * 0.002
        waited = 0
        while work_seconds > 0:
            work_seconds += rng.poisson(200.0) * 0.002 - 1.0
            waited += 1
        finished.append(waited)

    assert np.mean(finished) == pytest.approx(found.catch_up_ratio * away_seconds, rel=0.02)
