"""A cluster with very many tenants makes neither labels nor sums of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import START, admission, batch
from tierscope.domain.requests import NO_TOKENS
from tierscope.domain.window import TimeSpan
from tierscope.registry.metrics import METRICS
from tierscope.registry.tenant_metrics import FORMER_TENANT_TOKENS, TENANT_TOKENS
from tierscope.storage.retention import Keeping
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
ASKED_FOR = (TENANT_TOKENS, FORMER_TENANT_TOKENS)
"""Metrics that exist only where `tenant_series` asks for tenants by name, and are bounded."""


@pytest.mark.long
def test_fifty_thousand_tenants_make_no_label_and_no_sum_of_their_own(tmp_path):
    """UD-26: a row a request, whoever asks; one sum an hour; totals conserved; none is named unasked."""
    tenants = 50_000
    store = Store.open(tmp_path / "store.duckdb", clock=lambda: START + 7200)
    one = admission("abc", shares=[16])
    rows = [replace(one, request_id=str(n), salt_hash=n, session_hash=n) for n in range(tenants)]
    for start in range(0, tenants, 10_000):
        store.append(batch(start // 10_000, *rows[start : start + 10_000]))
    expected = sum([one.tokens] * tenants, NO_TOKENS)
    assert store.reader().totals("prod", "chat", ALL_TIME).tokens == expected

    store.retain(Keeping(raw_seconds=3600, hourly_seconds=1e9))

    with store._database.reading() as cursor:
        sums = cursor.execute("SELECT count(*), sum(requests) FROM hourly_requests").fetchall()
    assert sums == [(1, tenants)]
    assert store.reader().totals("prod", "chat", ALL_TIME).tokens == expected
    named = {label for m in METRICS if m not in ASKED_FOR for label in m.labels}
    assert not {"tenant", "user", "session", "salt"} & named
    store.close()
