"""However many tenants there are, the series by tenant are bounded, and add up to all tokens."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from exporters.owners import OwnedTotals
from exporters.tenants import CANDIDATES, OTHER, TenantTotals, checked_tenant_series
from tests.captured import ENGINE
from tests.unit.exporters.test_ledger import SOURCE, record
from tierscope.domain.errors import BadSettings
from tierscope.domain.requests import TokenSplit
from tierscope.domain.settings import ExporterSettings
from tierscope.domain.tiers import Origin
from tierscope.registry.metrics import REQUEST_TOKENS
from tierscope.registry.tenant_metrics import FORMER_TENANT_TOKENS, TENANT_TOKENS

OWNER = (ENGINE.namespace, ENGINE.endpoint)


def asked(totals, salts, prompt=100):
    for salt in salts:
        tokens = TokenSplit(prompt, l0=prompt // 4, l2=prompt // 4, computed=prompt - 2 * (prompt // 4))
        totals.count(record(tokens, salt_hash=None if salt is None else int(salt)))


def sums(samples, *metrics) -> Counter:
    """Tokens by origin."""
    found = Counter()
    for sample in samples:
        if sample.metric in metrics:
            found[Origin(sample.labels[-1])] += sample.value
    return found


def tenants(totals) -> dict[str, float]:
    found = Counter()
    for sample in totals.samples():
        if sample.metric is TENANT_TOKENS:
            found[sample.labels[2]] += sample.value
    return found


def test_fifty_thousand_tenants_stay_bounded_and_nothing_is_lost():
    """UD-26: at most as many as wanted by name, the remainder under `other`, totals conserved."""
    totals, rng = TenantTotals(20), np.random.default_rng(1)
    salts = np.concatenate((np.arange(50_000), rng.integers(0, 50_000, 10_000)))
    asked(totals, salts)

    samples = list(totals.samples())
    assert len(tenants(totals)) == 20 + 1
    assert len(samples) <= (20 + 3) * len(Origin)
    assert len(totals._candidates) <= CANDIDATES * 20
    assert sums(samples, TENANT_TOKENS, FORMER_TENANT_TOKENS) == {
        Origin.L0: 25 * 60_000, Origin.L1: 0, Origin.L2: 25 * 60_000, Origin.EXTERNAL: 0,
        Origin.COMPUTED: 50 * 60_000,
    }  # fmt: skip


def test_who_asks_most_gets_a_name_however_late_it_comes():
    """Three tenants with a tenth of the traffic each, after the places were taken by others."""
    totals, rng = TenantTotals(5), np.random.default_rng(2)
    asked(totals, range(100, 105))
    heavy = rng.random(20_000) < 0.3
    asked(totals, np.where(heavy, rng.integers(0, 3, 20_000), rng.integers(1000, 40_000, 20_000)))

    assert {f"{salt:016x}" for salt in range(3)} <= set(tenants(totals))


def test_what_others_asked_defends_no_place():
    """A tenant weighs what it asked itself: one twice as heavy takes its place from it too."""
    totals = TenantTotals(1)
    asked(totals, [1])
    asked(totals, list(range(100, 150)) * 4)  # candidates that take one another's weight over
    asked(totals, [2] * 3)
    assert f"{2:016x}" in tenants(totals)

    asked(totals, [3] * 7)

    assert f"{3:016x}" in tenants(totals)


def test_tenants_of_equal_weight_do_not_take_turns():
    """A series that ends and begins all day long says nothing."""
    totals = TenantTotals(3)
    asked(totals, list(range(10)) * 500)

    assert set(tenants(totals)) == {f"{salt:016x}" for salt in range(3)} | {OTHER}
    assert sums(totals.samples(), FORMER_TENANT_TOKENS) == {}


def test_requests_without_a_salt_are_told_apart():
    """No tenant is not a tenant that nobody counts."""
    totals = TenantTotals(1)
    asked(totals, [None, 7, 8])

    assert tenants(totals) == {"none": 100, f"{7:016x}": 100, OTHER: 100}


def test_by_tenant_and_by_engine_the_page_says_the_same():
    """As the ledger counts, with every status of a request; and without the setting nothing is told."""
    told, silent = OwnedTotals(time.monotonic, tenant_series=2), OwnedTotals(time.monotonic)
    for number in range(12):
        one = record(TokenSplit(10, l1=number % 4, computed=10 - number % 4), salt_hash=number % 5)
        told.count(SOURCE, one)
        silent.count(SOURCE, one)

    by_engine = sums(told.samples(), REQUEST_TOKENS)
    assert sums(told.samples(), TENANT_TOKENS, FORMER_TENANT_TOKENS) == by_engine
    assert not [one for one in silent.samples() if one.metric in (TENANT_TOKENS, FORMER_TENANT_TOKENS)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ExporterSettings(tenant_series=20), "another name in every run"),
        (ExporterSettings(tenant_series=101, hash_key_file="k"), "not from 0 to 100"),
        (ExporterSettings(tenant_series=-1, hash_key_file="k"), "not from 0 to 100"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings, words):
    """Before anything is read."""
    with pytest.raises(BadSettings, match=words):
        checked_tenant_series(settings)
