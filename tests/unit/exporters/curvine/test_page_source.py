"""A Curvine cluster as a source, and what it lets others know."""

from __future__ import annotations

import pytest

from exporters.curvine.page_source import CurvineSource
from exporters.curvine.suspicion import PoolSuspect
from exporters.pools import PoolFacts
from tests.curvine_cluster import MASTER, Answers, master_pages, text, workers
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.pool import PoolTraffic
from tierscope.registry import pool_metrics


@pytest.fixture
def folder(captures):
    return captures / "curvine"


@pytest.fixture
def answers(folder):
    return Answers(master_pages(folder))


def shown(source):
    return {(sample.metric, sample.labels): sample.value for sample in source.samples()}


def moved(reading):
    return [entry for entry in reading.entries if isinstance(entry, PoolTraffic)]


def test_others_know_whether_the_master_tells_the_size(answers):
    """Before its first answer, they wait for it; while none can be had, they tell it themselves."""
    facts = PoolFacts()
    source = CurvineSource("pool", (MASTER,), facts)
    assert facts.master_tells
    assert not facts.master_was_asked.is_set()

    answers.down = True
    with pytest.raises(SourceUnreadable):
        source.read(answers, 1.0)
    assert not facts.master_tells
    assert facts.master_was_asked.is_set()

    answers.down = False
    source.read(answers, 2.0)
    assert facts.master_tells
    assert facts.workers == {
        "curvine-worker-0.curvine-worker.curvine.svc.cluster.local": "http://10.0.1.21:9001",
        "curvine-worker-1.curvine-worker.curvine.svc.cluster.local": "http://10.0.2.21:9001",
    }


def test_three_of_four_workers_are_three_units_of_four(answers, folder):
    """In its completeness, and as a finding."""
    answers.pages[f"{MASTER}/api/workers"] = workers(folder, "Live", "Live", "Live", lost=1)
    source = CurvineSource("pool", (MASTER,))

    reading = source.read(answers, 1.0)

    assert (reading.units.received, reading.units.missing) == (3, 1)
    assert source.units == 4
    assert PoolSuspect.WORKER_LOST in {finding.kind for finding in reading.findings}


def test_workers_are_shown_by_storage_and_status(answers, folder):
    """Each with its size, what it holds and what is left; and what of it new chunks can use."""
    answers.pages[f"{MASTER}/api/workers"] = workers(folder, "Live", "Blacklist")
    source = CurvineSource("pool", (MASTER,))
    source.read(answers, 1.0)

    found = shown(source)

    assert found[pool_metrics.WORKERS, ("pool", "live")] == 1
    assert found[pool_metrics.WORKERS, ("pool", "blacklist")] == 1
    assert found[pool_metrics.WORKER_CAPACITY, ("pool", "w0", "ssd")] == 107_374_182_400
    assert found[pool_metrics.WORKER_USED, ("pool", "w1", "ssd")] == 10_276_044_800
    assert found[pool_metrics.WORKER_AVAILABLE, ("pool", "w1", "ssd")] == 97_098_137_600
    assert found[pool_metrics.ALLOCATABLE, ("pool",)] == 97_098_137_600

    answers.down = True
    with pytest.raises(SourceUnreadable):
        source.read(answers, 2.0)
    assert shown(source) == {}, "what nobody tells is absent"


def test_settings_are_shown_and_judged(answers):
    """The derived cluster never evicts; with a TTL that deletes it does, and shows it."""
    source = CurvineSource("pool", (MASTER,))
    reading = source.read(answers, 1.0)
    assert {finding.kind for finding in reading.findings} == {PoolSuspect.NEVER_EVICTS}
    assert not any(metric is pool_metrics.TTL for metric, _ in shown(source))

    config = answers.pages[f"{MASTER}/api/config"].replace(b'"0"', b'"7d"').replace(b'"none"', b'"delete"')
    answers.pages[f"{MASTER}/api/config"] = config.replace(b'n": false', b'n": true', 1)
    reading = source.read(answers, 16.0)

    assert reading.findings == []
    assert shown(source)[pool_metrics.TTL, ("pool", "delete")] == 604_800
    assert shown(source)[pool_metrics.WATERMARK, ("pool", "high")] == 0.8


def test_without_its_api_the_masters_gauges_are_read(folder):
    """Size and use stand; that workers and settings are unknown is told, and no finding is made of it."""
    source = CurvineSource("pool", (MASTER,))

    reading = source.read(Answers({f"{MASTER}/metrics": text(folder, "master-v0.3.2")}), 1.0)

    assert reading.entries[0].capacity_bytes == 214_748_364_800
    assert (reading.units.received, reading.units.missing) == (2, 0)
    assert [oddity.what for oddity in reading.oddities] == ["part of a master that cannot be read"]
    assert reading.findings == []


def test_what_all_clients_moved_is_told_unless_clients_are_read(answers, folder):
    """The same bytes are on the clients' own pages: never both."""
    alone, beside = CurvineSource("pool", (MASTER,)), CurvineSource("pool", (MASTER,), counts_clients=False)
    for source in (alone, beside):
        assert moved(source.read(answers, 1.0)) == []

    answers.pages[f"{MASTER}/metrics"] = text(folder, "master-main", client_read_bytes=38_168_166_400 + 1000)

    assert [(m.seen_by, m.read_bytes) for m in moved(alone.read(answers, 16.0))] == [("clients", 1000)]
    assert moved(beside.read(answers, 16.0)) == []


def test_a_pool_that_fills_says_when_it_is_full(answers, folder):
    """100 MB in 100 seconds, and 97 GB left on the only worker that lives."""
    source = CurvineSource("pool", (MASTER,))
    for seconds, used in ((0.0, 10_000_000_000), (100.0, 10_100_000_000)):
        answers.pages[f"{MASTER}/api/workers"] = workers(folder, "Live", fs_used=used)
        source.read(answers, seconds)

    assert shown(source)[pool_metrics.FULL_IN, ("pool",)] == pytest.approx(97_098.1376)
