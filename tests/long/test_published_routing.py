"""The engine and router models against published comparisons; docs/simulate.md says what does not hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from tests.published import LLAMA_70B, QWEN3_32B, Figures

pytestmark = pytest.mark.long

BENCHMARKS = {"qwen3-32b": QWEN3_32B, "llama-70b": LLAMA_70B}
SEEDS = (1, 2)
KNEE = 2.0
"""A stage is above the knee where its mean is so many times that of the lowest rate."""
TELLING = 1.25


@functools.cache
def modelled(name: str, policy: str) -> dict[float, Figures]:
    """Figures by rate, over two draws of the arrivals."""
    draws = [BENCHMARKS[name].figures(policy, seed) for seed in SEEDS]
    return {rate: Figures(*np.mean([draw[rate] for draw in draws], axis=0).tolist()) for rate in draws[0]}


def means(name: str, policy: str) -> dict[float, float]:
    """Mean TTFT by rate."""
    return {rate: found.ttft for rate, found in modelled(name, policy).items()}


def knee(by_rate: Mapping[float, float]) -> int:
    """The first stage above the knee, their number where there is none."""
    lowest = by_rate[min(by_rate)]
    above = [number for number, mean in enumerate(by_rate.values()) if mean > KNEE * lowest]
    return above[0] if above else len(by_rate)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_two_constants_that_are_taken_from_the_tables_fit_their_row(name):
    """The lowest rate of `precise` is met, so that all other rows are foretold."""
    benchmark = BENCHMARKS[name]
    lowest = min(benchmark.tokens)
    found = modelled(name, "precise")[lowest]

    assert found.ttft == pytest.approx(benchmark.published["precise"][lowest], rel=0.02)
    assert found.token == pytest.approx(2 * benchmark.tokens[lowest], rel=0.02)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_time_between_tokens_is_foretold_at_every_rate(name):
    """Within a tenth; published figures count an empty line as a token, and are half of it."""
    published = BENCHMARKS[name].tokens

    assert {rate: found.token for rate, found in modelled(name, "precise").items()} == {
        rate: pytest.approx(2 * seconds, rel=0.1) for rate, seconds in published.items()
    }


@pytest.mark.parametrize(
    ("name", "policy", "rates"),
    [
        ("qwen3-32b", "precise", tuple(QWEN3_32B.tokens)),
        ("qwen3-32b", "estimated", (3, 20, 22, 25, 30)),
        ("qwen3-32b", "random", (3, 10)),
        ("qwen3-32b", "load", (3,)),
        ("llama-70b", "precise", (4, 12, 15, 20)),
        ("llama-70b", "random", (3,)),
        ("llama-70b", "load", (3,)),
    ],
)
def test_means_below_the_knee_are_within_a_fifth(name, policy, rates):
    """Rows below the published knee that are not listed are further off, or within a point of it."""
    published, found = BENCHMARKS[name].published[policy], means(name, policy)

    assert {rate: found[rate] for rate in rates} == {
        rate: pytest.approx(published[rate], rel=0.2) for rate in rates
    }


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        *(("qwen3-32b", policy) for policy in QWEN3_32B.published),
        *(("llama-70b", policy) for policy in LLAMA_70B.published if policy != "default"),
    ],
)
def test_the_knee_is_within_one_stage(name, policy):
    """Where waiting begins to grow, or that it does not; of `default` it is not."""
    benchmark = BENCHMARKS[name]

    assert abs(knee(means(name, policy)) - knee(benchmark.published[policy])) <= 1


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        ("qwen3-32b", ("precise", "estimated", "random", "load")),
        ("llama-70b", ("precise", "random", "load")),
    ],
)
def test_policies_come_in_the_right_order_where_they_differ(name, policies):
    """At every rate at which two published means differ by more than a quarter."""
    published = BENCHMARKS[name].published
    differing = 0
    for one, other in combinations(policies, 2):
        for rate in published[one]:
            ratio = published[one][rate] / published[other][rate]
            if max(ratio, 1 / ratio) > TELLING:
                differing += 1
                assert (means(name, one)[rate] < means(name, other)[rate]) == (ratio < 1), rate
    assert differing >= len(policies) - 1
