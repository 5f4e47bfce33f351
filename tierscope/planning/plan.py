"""Exporters, collectors and disk for so many engines: rates, divided by what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tierscope.domain.errors import BadInput
from tierscope.planning.coefficients import Coefficients

BUSIEST = 0.5
"""Most of its core that a collector may use: after a minute away it then needs a minute to catch up."""

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
    """Of the exporter of the fullest node."""
    stores: int
    """Each with one collector and the endpoints it is given: collectors that share a lake write in turn."""
    collector_cores: float
    """Of the one with the most engines."""
    cores: float
    """Of all exporters and collectors together."""
    feed_bytes_a_second: float
    """Of all exporters together."""
    stored_bytes_a_day: float

    @property
    def catch_up_ratio(self) -> float:
        """Seconds the busiest collector needs for each second it was away."""
        return self.collector_cores / (1 - self.collector_cores)

    def stored_bytes(self, days: float) -> float:
        """Raw rows of so many days."""
        return self.stored_bytes_a_day * days


def plan(workload: Workload, coefficients: Coefficients | None = None) -> Plan:
    """Plan for a workload; raises `BadInput` where an exporter has more engines than can be followed.

    Nodes are taken to be full but for the last one, so each process is planned for full nodes: 9 engines
    at 8 a node are an exporter of 8, and not two of 4.5.
    """
    costs = coefficients or Coefficients()
    rates = workload.admissions_a_second, workload.new_blocks_a_second, workload.block_events_a_second
    needed = costs.collector_seconds.of(*rates)
    exporters = costs.exporter_seconds.of(*rates)
    fullest = largest_share(workload, workload.nodes)
    _refuse_unless(
        needed * fullest <= BUSIEST,
        "engines_a_node",
        workload.engines_a_node,
        f"one exporter's rows would keep a collector busy for {needed * fullest:.0%} of its time, "
        f"where {BUSIEST:.0%} is the most: give an exporter fewer engines",
    )
    _refuse_unless(
        exporters * fullest <= 1,
        "engines_a_node",
        workload.engines_a_node,
        f"their exporter would need {exporters * fullest:.1f} cores and has one: give an exporter fewer "
        "engines",
    )
    stores = next(n for n in range(1, workload.nodes + 1) if needed * largest_share(workload, n) <= BUSIEST)
    return Plan(
        workload,
        exporters * fullest,
        stores,
        needed * largest_share(workload, stores),
        exporters + needed,
        costs.feed_bytes.of(*rates),
        costs.stored_bytes.of(*rates) * DAY_SECONDS,
    )


def largest_share(workload: Workload, stores: int) -> float:
    """The share of all engines that the store with the most has, nodes dealt out as evenly as can be.

    >>> largest_share(Workload(10, 1.0, engines_a_node=8), stores=2)
    0.8
    """
    nodes = math.ceil(workload.nodes / stores)
    return min(nodes * workload.engines_a_node, workload.engines) / workload.engines


def _refuse_unless(good: bool, name: str, value: float, fix: str) -> None:
    if not good:
        raise BadInput(f"{name} of {value}", where="plan", fix=fix)
