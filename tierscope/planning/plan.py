"""Exporters, collectors and disk for so many engines: rates, divided by what was measured."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from tierscope.domain.errors import BadInput
from tierscope.planning.coefficients import Coefficients

BUSIEST = 0.8
"""Most of its core that a collector may use: after a minute away it then needs four to catch up."""

SELDOM = 0.05
"""How seldom a collector may be given more exporters than planned, by the chance of hashing."""

DAY_SECONDS = 86_400

LOWER_TIERS = 2
"""L1 and L2: what L0 computes is stored in both, chunk by chunk, and in time evicted from both."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A deployment in numbers. `requests_a_second` is of each engine; tokens are means of a request."""

    engines: int
    requests_a_second: float
    prompt_tokens: float = 8_000.0
    computed_ratio: float = 0.3
    """Of the prompt's tokens, those that no tier had."""
    answer_tokens: float = 300.0
    block_tokens: int = 16
    chunk_tokens: int = 256
    engines_a_node: int = 8

    def __post_init__(self) -> None:
        """Raise `BadInput` for a number that no deployment has."""
        for name in ("engines", "block_tokens", "chunk_tokens", "engines_a_node"):
            _refuse_unless(getattr(self, name) >= 1, name, getattr(self, name), "give one or more")
        for name in ("requests_a_second", "prompt_tokens", "answer_tokens"):
            value = getattr(self, name)
            _refuse_unless(value >= 0 and math.isfinite(value), name, value, "give a number of 0 or more")
        _refuse_unless(0 <= self.computed_ratio <= 1, "computed_ratio", self.computed_ratio, "give 0 to 1")

    @property
    def nodes(self) -> int:
        """Nodes, and so exporters."""
        return math.ceil(self.engines / self.engines_a_node)

    @property
    def admissions_a_second(self) -> float:
        """Of all engines."""
        return self.engines * self.requests_a_second

    @property
    def new_blocks_a_second(self) -> float:
        """Blocks of prompts that no earlier request had, of all engines."""
        return self.admissions_a_second * self.prompt_tokens * self.computed_ratio / self.block_tokens

    @property
    def block_events_a_second(self) -> float:
        """Blocks and chunks stored and, as caches are full, evicted again, in all tiers of all engines."""
        new_tokens = self.prompt_tokens * self.computed_ratio + self.answer_tokens
        stored = new_tokens / self.block_tokens + LOWER_TIERS * new_tokens / self.chunk_tokens
        return self.admissions_a_second * stored * 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What the workload takes."""

    workload: Workload
    exporter_cores: float
    """Of each node's exporter."""
    collectors: int
    collector_cores: float
    """Of the one with the most exporters."""
    feed_bytes_a_second: float
    """Of all exporters together."""
    stored_bytes_a_day: float

    @property
    def lake(self) -> bool:
        """Whether one collector, and so a file, is too little."""
        return self.collectors > 1

    @property
    def catch_up_ratio(self) -> float:
        """Seconds the busiest collector needs for each second it was away."""
        return self.collector_cores / (1 - self.collector_cores)

    def stored_bytes(self, days: float) -> float:
        """Raw rows of so many days."""
        return self.stored_bytes_a_day * days


def plan(workload: Workload, coefficients: Coefficients | None = None) -> Plan:
    """Plan for a workload; raises `BadInput` where an exporter has more engines than can be followed."""
    costs = coefficients or Coefficients()
    rates = workload.admissions_a_second, workload.new_blocks_a_second, workload.block_events_a_second
    needed = costs.collector_seconds.of(*rates)
    exporter_cores = costs.exporter_seconds.of(*rates) / workload.nodes
    _refuse_unless(
        needed / workload.nodes <= BUSIEST,
        "engines_a_node",
        workload.engines_a_node,
        f"one exporter's rows would keep a collector busy for {needed / workload.nodes:.0%} of its time, "
        f"where {BUSIEST:.0%} is the most: give an exporter fewer engines",
    )
    _refuse_unless(
        exporter_cores <= 1,
        "engines_a_node",
        workload.engines_a_node,
        f"their exporter would need {exporter_cores:.1f} cores and has one: give an exporter fewer engines",
    )
    collectors = next(
        n
        for n in range(math.ceil(needed / BUSIEST) or 1, sys.maxsize)
        if needed * busiest_share(workload.nodes, n) <= BUSIEST
    )
    return Plan(
        workload,
        exporter_cores,
        collectors,
        needed * busiest_share(workload.nodes, collectors),
        costs.feed_bytes.of(*rates),
        costs.stored_bytes.of(*rates) * DAY_SECONDS,
    )


def busiest_share(exporters: int, collectors: int) -> float:
    """The share of all exporters that the collector with the most of them has, in nineteen of twenty cases.

    Each exporter falls on one of them by its hash, so a collector has a binomial number: the smallest k with
    collectors x P(Binomial(exporters, 1 / collectors) > k) <= 0.05, by the union over collectors.
    """
    if collectors == 1:
        return 1.0
    beyond = 1.0
    for k in range(exporters):
        log_chance = (
            math.lgamma(exporters + 1)
            - math.lgamma(k + 1)
            - math.lgamma(exporters - k + 1)
            + (exporters - k) * math.log1p(-1 / collectors)
            - k * math.log(collectors)
        )
        beyond -= math.exp(log_chance)
        if collectors * beyond <= SELDOM:
            return max(k, 1) / exporters
    return 1.0


def _refuse_unless(good: bool, name: str, value: float, fix: str) -> None:
    if not good:
        raise BadInput(f"{name} of {value}", where="plan", fix=fix)
