"""Every threshold, wait, severity and word of every alert, changed: its cases have to notice."""

from __future__ import annotations

import pytest

from tests.long_sample import SAMPLED
from tests.rule_mutants import ALERTS, RuleCases, mutants

pytestmark = [pytest.mark.long, pytest.mark.system]

LONG_LOOKS = ("TierscopeTtftBudgetBurns", "TierscopeTtftBudgetBurnsSlowly", "TierscopeTierHitsLost")
"""Their cases take hours of series: left out of a sample."""


@pytest.mark.parametrize("alert", [name for name in ALERTS if not (SAMPLED and name in LONG_LOOKS)])
def test_no_part_of_an_alert_can_be_changed_unnoticed(alert, system_binary, tmp_path):
    """Some case fails for each of them."""
    cases = RuleCases(system_binary("promtool", package="prometheus"), tmp_path)
    changed = list(mutants(ALERTS[alert]))

    unnoticed = [str(one) for one in changed if cases.run(f"{alert}.yaml", rule=one.rule)[0] == 0]

    assert len(changed) >= 5
    assert unnoticed == []
