"""Every worker of a pool as one source whose units they are."""

from __future__ import annotations

import pytest

from exporters.curvine.suspicion import PoolSuspect
from exporters.curvine.workers_source import WorkersSource
from exporters.pools import PoolFacts
from tests.curvine_cluster import Answers, text
from tierscope.domain.errors import SourceUnreadable

CHUNK = 14_680_064


@pytest.fixture
def folder(captures):
    return captures / "curvine"


@pytest.fixture
def answers(folder):
    return Answers({f"http://w{number}/metrics": text(folder, "worker-0") for number in range(3)})


@pytest.fixture
def source():
    facts = PoolFacts(workers={f"w{number}": f"http://w{number}" for number in range(4)})
    facts.master_was_asked.set()
    return WorkersSource("pool", facts)


def test_three_pages_of_four_are_three_units_of_four(source, answers):
    """The one that does not answer is missing and named; the others' numbers are there."""
    reading = source.read(answers, 1.0)

    assert (reading.units.received, reading.units.missing) == (3, 1)
    (oddity,) = reading.oddities
    assert "http://w3/metrics" in oddity.error.where


def test_each_worker_tells_what_it_moved(source, answers, folder):
    """A chunk more was read from one of them; the others moved nothing and say nothing."""
    source.read(answers, 1.0)
    answers.pages["http://w1/metrics"] = text(folder, "worker-0", read_bytes=1501 * CHUNK).replace(
        b'read_blocks{type="remote"} 1500', b'read_blocks{type="remote"} 1501'
    )

    (moved,) = source.read(answers, 16.0).entries

    assert (moved.process, moved.read_bytes, moved.written_bytes) == ("w1", CHUNK, 0)
    assert (moved.local_opens, moved.remote_opens) == (0, 1)


def test_opens_past_the_workers_are_a_finding(source, answers, folder):
    """Ten short-circuit opens whose bytes no worker counts."""
    assert source.read(answers, 1.0).findings == []
    answers.pages["http://w1/metrics"] = text(folder, "worker-0") + b'read_blocks{type="local"} 10\n'

    (finding,) = source.read(answers, 16.0).findings

    assert finding.kind == PoolSuspect.HIDDEN_BYTES
    assert "10 of 10" in finding.error.what


def test_another_process_behind_a_workers_address_is_not_read(source, answers, folder):
    """Ports moved: what was a worker's is a master's now."""
    answers.pages["http://w2/metrics"] = text(folder, "master-main")

    reading = source.read(answers, 1.0)

    assert (reading.units.received, reading.units.missing) == (2, 2)
    assert any("master" in oddity.error.what for oddity in reading.oddities)


def test_no_worker_at_all_is_a_source_that_is_down(source, answers):
    """Whether none answers or none is known."""
    answers.down = True
    with pytest.raises(SourceUnreadable, match="none of 4"):
        source.read(answers, 1.0)

    source.facts.workers = None
    with pytest.raises(SourceUnreadable, match="no worker is known"):
        source.read(answers, 2.0)


def test_a_worker_that_came_back_is_measured_anew(source, answers, folder):
    """What it counted while it was not in the cluster is not one interval's traffic."""
    source.read(answers, 1.0)
    known = dict(source.facts.workers)
    source.facts.workers = {name: url for name, url in known.items() if name != "w1"}
    source.read(answers, 16.0)
    answers.pages["http://w1/metrics"] = text(folder, "worker-0", read_bytes=9000 * CHUNK)
    source.facts.workers = known

    assert source.read(answers, 31.0).entries == []
