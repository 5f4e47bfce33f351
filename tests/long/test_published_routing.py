"""The engine and router models against published comparisons; docs/simulate.md says what does not hold."""

from __future__ import annotations

import functools
from itertools import combinations

import numpy as np
import pytest

from tests.published import LLAMA_70B, QWEN3_32B, Benchmark

pytestmark = pytest.mark.long

BENCHMARKS = {"qwen3-32b": QWEN3_32B, "llama-70b": LLAMA_70B}
SEEDS = (1, 2)
KNEE = 2.0
"""A stage is above the knee where its mean is so many times that of the lowest rate."""
TELLING = 1.25


@functools.cache
def modelled(name: str, policy: str) -> dict[float, float]:
    """Mean TTFT by rate, over two draws of the arrivals."""
    draws = [BENCHMARKS[name].means(policy, seed) for seed in SEEDS]
    return {rate: float(np.mean([draw[rate] for draw in draws])) for rate in draws[0]}


def knee(benchmark: Benchmark, means: dict[float, float]) -> int:
    """The first stage above the knee, their number where there is none; only stages that were published."""
    lowest = means[min(means)]
    rates = [rate for rate, _ in benchmark.stages]
    above = [number for number, rate in enumerate(rates) if rate in means and means[rate] > KNEE * lowest]
    return above[0] if above else len(rates)


@pytest.mark.parametrize(("name", "policy"), [("qwen3-32b", "precise"), ("llama-70b", "precise")])
def test_the_one_constant_that_is_taken_from_the_tables_fits_its_row(name, policy):
    """The lowest rate of `precise` is met, so that all other rows are foretold."""
    lowest = min(BENCHMARKS[name].published[policy])

    assert modelled(name, policy)[lowest] == pytest.approx(
        BENCHMARKS[name].published[policy][lowest], rel=0.01
    )


@pytest.mark.parametrize(
    ("policy", "rates"),
    [
        ("precise", (10, 20, 25, 30, 35, 60)),
        ("estimated", (3, 10, 20, 25, 30)),
        ("random", (3, 10, 15)),
        ("load", (3, 10)),
    ],
)
def test_means_below_the_knee_are_within_a_fifth(policy, rates):
    """Rows that are not listed are further off."""
    published, found = QWEN3_32B.published[policy], modelled("qwen3-32b", policy)

    assert {rate: found[rate] for rate in rates} == {
        rate: pytest.approx(published[rate], rel=0.2) for rate in rates
    }


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("qwen3-32b", "estimated"),
        ("qwen3-32b", "random"),
        ("qwen3-32b", "load"),
        ("llama-70b", "precise"),
        ("llama-70b", "random"),
    ],
)
def test_the_knee_is_within_one_stage(name, policy):
    """Where waiting begins to grow, or that it does not; of those that are not listed it is not."""
    benchmark = BENCHMARKS[name]
    published = benchmark.published[policy]
    found = {rate: modelled(name, policy)[rate] for rate, _ in benchmark.stages}

    assert abs(knee(benchmark, found) - knee(benchmark, dict(published))) <= 1


@pytest.mark.parametrize(
    ("name", "policies"),
    [("qwen3-32b", ("precise", "estimated", "random", "load")), ("llama-70b", ("precise", "random"))],
)
def test_policies_come_in_the_right_order_where_they_differ(name, policies):
    """At every rate at which two published means differ by more than a quarter."""
    published = BENCHMARKS[name].published
    differing = 0
    for one, other in combinations(policies, 2):
        for rate in published[one].keys() & published[other].keys():
            ratio = published[one][rate] / published[other][rate]
            if max(ratio, 1 / ratio) > TELLING:
                differing += 1
                assert (modelled(name, one)[rate] < modelled(name, other)[rate]) == (ratio < 1), rate
    assert differing >= len(policies) - 1
