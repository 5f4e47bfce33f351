"""How a change is applied: real fields, real units, and what they disturb."""

from __future__ import annotations

import json

import pytest
from promql_parser import parse

from tests import workloads as w
from tierscope.advice.document import ApplyFormat
from tierscope.advice.patches import apply_size, revert_if, risks_of
from tierscope.advice.predictions import Estimate
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB

GROW = (8 * GIB, 12.5 * GIB)


def test_l1_is_a_variable_in_gib_and_memory_for_it():
    """LMCache's GB are GiB; the container's request and limit grow by what L1 grows."""
    deployment = w.deployment(GROW[0], worker_memory_bytes=32.0 * GIB)
    variable, memory = apply_size(Tier.L1, deployment, *GROW)

    assert variable.format is ApplyFormat.ENV
    assert variable.document == {"LMCACHE_MAX_LOCAL_CPU_SIZE": "12.5"}
    assert "GiB" in variable.what
    assert memory.format is ApplyFormat.JSON_PATCH
    assert memory.document == [
        {"op": "replace", "path": "/spec/worker/resources/requests/memory", "value": "37376Mi"},
        {"op": "replace", "path": "/spec/worker/resources/limits/memory", "value": "37376Mi"},
    ]


def test_every_rank_takes_the_variable_for_itself():
    """Four GPUs a replica: each is told a quarter, and the sum is said."""
    [variable] = apply_size(Tier.L1, w.deployment(GROW[0], tensor_parallel=4), *GROW)

    assert variable.document == {"LMCACHE_MAX_LOCAL_CPU_SIZE": "3.125"}
    assert "4 ranks take this much each, 12.5 GiB together" in variable.what


def test_without_the_memory_of_today_the_step_says_by_how_much():
    """No absolute value is made up where today's is not known."""
    [variable] = apply_size(Tier.L1, w.deployment(GROW[0]), *GROW)

    assert "limits.memory by 4.5 GiB" in variable.what


def test_l2_is_helm_values_for_workers_and_directories():
    """The pool is workers times directories; the values add up to the size."""
    deployment = w.deployment(GIB, 400 * GIB, l2_workers=2)
    [values] = apply_size(Tier.L2, deployment, 400 * GIB, 300 * GIB)

    assert values.format is ApplyFormat.HELM_VALUES
    assert values.document == {"worker": {"replicas": 2, "storage": {"dataDirs": [{"size": "150Gi"}]}}}


def test_an_assumed_number_of_workers_is_said():
    """One worker a replica is a guess, and is called one."""
    [values] = apply_size(Tier.L2, w.deployment(GIB, GIB, replicas=4), GIB, 3 * GIB)

    assert values.document["worker"]["storage"]["dataDirs"] == [{"size": "768Mi"}]
    assert "l2_workers is not configured" in values.what


@pytest.mark.parametrize("tier", [Tier.L1, Tier.L2])
def test_risks_name_what_restarts(tier):
    """Nobody should learn from the outage that a size change restarts something."""
    risks = risks_of(tier, w.deployment(GIB, GIB), GIB, 2 * GIB)

    assert any("restart" in risk for risk in risks)
    assert any("limit_bytes" in risk for risk in risks)


def test_l1_risks_tell_of_the_re_render():
    """The operator undoes what was patched into the Deployment by hand."""
    assert any("LMCACHE_REMOTE_URL" in risk for risk in risks_of(Tier.L1, w.deployment(GIB), *GROW))


def test_a_shrinking_pool_tells_of_what_curvine_does():
    """A size below what is used deletes nothing and stores nothing."""
    assert any("nothing is deleted" in risk for risk in risks_of(Tier.L2, w.deployment(GIB, GIB), GIB, 1))


def test_reasons_to_revert_can_be_measured():
    """Each is a PromQL query with a bound from the prediction, and is JSON."""
    total, p90 = Estimate(0.5, 0.45, 0.55), Estimate(1.0, 0.9, 1.2)
    hits, ttft = revert_if(Tier.L1, w.deployment(GIB), total, p90)

    assert (hits.comparison, hits.value) == ("<", 0.45)
    assert (ttft.comparison, ttft.value) == (">", 1.2)
    for reason in (hits, ttft):
        assert parse(reason.query)
        assert 'namespace="ns",endpoint="chat"' in reason.query
        assert json.dumps(reason.query)
