"""A TTFT objective can be counted, or is refused with what can."""

from __future__ import annotations

import pytest

from dashboards.rules.objective import TtftObjective
from dashboards.rules.render import alerts, recordings, rule_groups
from tierscope.domain.errors import BadInput


def test_an_objective_between_two_edges_is_refused():
    """The share below 3 s is nobody's count."""
    with pytest.raises(BadInput, match="3 s") as refused:
        TtftObjective(seconds=3.0)

    assert "2.5, 5" in refused.value.fix


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1])
def test_a_share_that_leaves_no_budget_is_refused(share):
    """Nothing can burn then."""
    with pytest.raises(BadInput, match="budget"):
        TtftObjective(share=share)


@pytest.mark.parametrize(
    ("seconds", "pattern"), [(2.0, r"2(\\.0)?"), (0.25, r"0\\.25"), (10.0, r"10(\\.0)?")]
)
def test_an_edge_is_found_however_it_is_written(seconds, pattern):
    """Prometheus clients write 2.0, others 2; the dot is one."""
    assert TtftObjective(seconds).edge_pattern == pattern


def test_another_objective_changes_what_is_late_and_when_it_burns():
    """Edge, thresholds and words follow it."""
    groups = rule_groups(TtftObjective(0.5, 0.99))
    slow = next(rule for rule in recordings(groups) if "slow" in rule.record)
    fast = next(alert for alert in alerts(groups) if alert.name.endswith("Fast"))

    assert 'le=~"0\\\\.5"' in slow.expr
    assert "> 0.144 and" in fast.expr
    assert "longer than 0.5 s" in fast.summary
