"""Configurations that cannot be are refused, all their faults at once."""

from __future__ import annotations

import pytest

from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.errors import BadSettings
from tierscope.testbed import TestbedConfig


def test_every_problem_is_named():
    """All impossible values are listed together, by field."""
    with pytest.raises(BadSettings) as caught:
        TestbedConfig(replicas=0, speed=0.5, l1_watermark_ratio=0)

    assert [problem.where for problem in caught.value.problems] == [
        "TestbedConfig.replicas",
        "TestbedConfig.l1_watermark_ratio",
        "TestbedConfig.speed",
    ]


def test_a_chunk_is_whole_blocks():
    """A chunk that no number of blocks fills is rounded up."""
    assert TestbedConfig(block_tokens=48).tokens_per_chunk == 288


def test_a_router_there_is_none_of_is_refused_with_those_there_are():
    """The error names the routers one can have."""
    with pytest.raises(BadSettings) as caught:
        TestbedConfig(routing=RoutingPolicy.GATEWAY)

    assert "roundrobin" in caught.value.problems[0].fix
