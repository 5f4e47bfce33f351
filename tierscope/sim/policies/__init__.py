"""What a full cache drops: one file a policy, `POLICIES` the list.

A policy is a function from paths and a capacity to the leading blocks of each request that the cache holds
when the request comes. All see a request whole: its hits are read first, then its path is touched and stored.
A new policy is its file and one line here; `tests/unit/tierscope/sim/test_policies.py` examines it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tierscope.domain.trace import Int32Array
from tierscope.sim.policies import fifo, lfu, lru, opt, s3fifo
from tierscope.traces.paths import Paths


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy by name. `leading_hits(paths, capacity_blocks)` are (n,) int32.

    `stack`: what a cache holds, a larger one holds too, so that more room never hurts.
    """

    name: str
    leading_hits: Callable[[Paths, int], Int32Array]
    stack: bool


POLICIES = (
    Policy("lru", lru.leading_hits, stack=True),
    Policy("fifo", fifo.leading_hits, stack=False),
    Policy("s3fifo", s3fifo.leading_hits, stack=False),
    Policy("lfu", lfu.leading_hits, stack=False),
    Policy("opt", opt.leading_hits, stack=True),
)


def policy_named(name: str) -> Policy:
    """The policy of a name; KeyError for one that is not there."""
    return {policy.name: policy for policy in POLICIES}[name]
