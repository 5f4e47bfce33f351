"""The store's past is kept within its bounds, and the bounds are shown."""

from __future__ import annotations

import pytest

from collectors.complaints import Complaints
from collectors.keeper import Keeper
from tests.exporting import await_true
from tests.ledgers import START, Ledger
from tierscope.domain.settings import CollectorSettings
from tierscope.registry import metrics
from tierscope.registry.store_metrics import (
    RETIRED_ROWS,
    STORE_HISTORY_SECONDS,
    STORE_LIMIT_BYTES,
    STORE_USED_BYTES,
)
from tierscope.storage.store import Store

NOW = START // 3600 * 3600 + 6 * 3600


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", clock=lambda: NOW) as store:
        store.append(Ledger().batches(300))
        yield store


def keeper(store, **chosen):
    return Keeper(store, CollectorSettings(**chosen), Complaints(lambda: 0.0))


def told(keeper):
    return {(sample.metric, *sample.labels): sample.value for sample in keeper.samples()}


def test_age_is_kept_in_the_background(store):
    """At once and then every so often: rows become sums, and how many is told."""
    running = keeper(store, keep_raw_seconds=3 * 3600.0, most_store_bytes=10**9)
    running.start()

    await_true(lambda: (RETIRED_ROWS, "requests") in told(running), "old rows are reduced")
    running.stop()
    running.join()

    samples = told(running)
    assert samples[STORE_HISTORY_SECONDS, "raw"] == 3 * 3600
    assert samples[STORE_HISTORY_SECONDS, "hourly"] == 6 * 3600
    assert samples[STORE_LIMIT_BYTES,] == 10**9
    assert 0 < samples[STORE_USED_BYTES,] <= samples[metrics.STORE_BYTES,]


def test_a_store_that_cannot_answer_is_absent_from_its_figures(store):
    """Its size on disk is known all the same."""
    idle = keeper(store)
    store.close()

    assert STORE_USED_BYTES not in {sample.metric for sample in idle.samples()}
    assert told(idle)[metrics.STORE_BYTES,] > 0


def test_a_store_that_refuses_is_tried_again(store):
    """The thread goes on."""
    running = keeper(store, maintain_seconds=0.01)
    store.close()
    running.start()

    assert running.alive
    running.stop()
    running.join()
