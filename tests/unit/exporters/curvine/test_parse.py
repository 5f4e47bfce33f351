"""Curvine's pages, built from its source's names: which process, which master, how large a pool."""

from __future__ import annotations

import json

import pytest

from exporters.curvine.fetch import fetch_active_master
from exporters.curvine.parse import Role, is_active, parse_pool, role_of
from exporters.exposition import parse_exposition
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier


@pytest.fixture
def folder(captures):
    return captures / "curvine"


def page(path):
    return parse_exposition(path.read_text("utf-8"), where=path.name)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("master-v0.3.2", Role.MASTER),
        ("master-main", Role.MASTER),
        ("worker-0", Role.WORKER),
        ("worker-1", Role.WORKER),
        ("fuse-v0.3.2", Role.FUSE),
        ("fuse-v0.4", Role.FUSE),
    ],
)
def test_a_process_is_known_by_its_names(folder, name, role):
    """Ports moved between releases and `capacity` is everywhere; other names tell."""
    assert role_of(page(folder / f"{name}.derived.prom")) is role


def test_anything_else_has_no_role():
    """A page of capacities alone could be anybody's."""
    assert role_of(parse_exposition("capacity 5\navailable 3", where="test")) is Role.UNKNOWN


@pytest.mark.parametrize("release", ["v0.3.2", "main"])
def test_the_pool_is_the_sum_of_its_live_workers(folder, release):
    """Two workers of 100 GiB with 1,200 chunk files."""
    workers = (folder / f"api-workers-{release}.derived.json").read_bytes()

    pool = parse_pool(page(folder / f"master-{release}.derived.prom"), workers, where="master")

    assert pool.sample("curvine", 15.0) == TierSample(
        tier=Tier.L2,
        holder="curvine",
        at_unix_seconds=15.0,
        capacity_bytes=214_748_364_800,
        used_bytes=17_616_076_800,
        used_blocks=1_200,
    )
    assert (pool.live_workers, pool.lost_workers) == (2, ())
    assert pool.oddities("master") == ()


def test_three_of_four_workers_are_said_to_be_three_of_four(folder):
    """A lost worker and one that is being emptied are named, and are not in the size."""
    document = json.loads((folder / "api-workers-main.derived.json").read_bytes())
    first, second = document["live_workers"]
    document["live_workers"] = [first, second, {**first, "status": "Decommission"}]
    document["lost_workers"] = [{**second, "status": "Lost"}]

    pool = parse_pool(
        page(folder / "master-main.derived.prom"), json.dumps(document).encode(), where="master"
    )

    assert pool.capacity_bytes == 214_748_364_800
    assert (pool.live_workers, len(pool.lost_workers)) == (2, 2)
    (oddity,) = pool.oddities("master")
    assert "2 workers of 4" in oddity.error.what
    assert "curvine-worker-0" in oddity.error.what
    assert "Lost" in oddity.error.what


def test_a_workers_page_under_a_masters_address_is_refused(folder):
    """The right port of one release is another process's in the next."""
    workers = (folder / "api-workers-main.derived.json").read_bytes()

    with pytest.raises(SourceUnreadable) as caught:
        parse_pool(page(folder / "worker-0.derived.prom"), workers, where="http://host:9001")

    assert "worker" in caught.value.what
    assert "9001" in caught.value.where


def test_only_the_active_master_counts(folder):
    """Standby and safe mode are not active."""
    overview = (folder / "api-overview.derived.json").read_bytes()
    standby = json.dumps({**json.loads(overview), "master_state": "Standby"}).encode()

    assert is_active(overview, where="test")
    assert not is_active(standby, where="test")


class Answers:
    """Stands in for a fetcher: answers by address, and refuses what it does not have."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def get(self, url):
        self.asked.append(url)
        if url not in self.answers:
            raise SourceUnreadable("nobody there", where=url, fix="start it")
        return self.answers[url]


def test_the_active_master_is_found_among_all(folder):
    """One is down, one stands by, the third answers for the pool."""
    overview = (folder / "api-overview.derived.json").read_bytes()
    standby = overview.replace(b"Active", b"Standby")
    answers = Answers(
        {
            "http://b/api/overview": standby,
            "http://c/api/overview": overview,
            "http://c/metrics": b"page",
            "http://c/api/workers": b"workers",
        }
    )

    answer = fetch_active_master(answers, ("http://a", "http://b/", "http://c/"))

    assert (answer.url, answer.metrics, answer.workers) == ("http://c", b"page", b"workers")
    assert not any("dcm" in url for url in answers.asked), "only reading paths are asked"


def test_without_an_active_master_all_answers_are_told(folder):
    """A person sees at once which master said what."""
    overview = (folder / "api-overview.derived.json").read_bytes().replace(b"Active", b"SafeMode")

    with pytest.raises(SourceUnreadable) as caught:
        fetch_active_master(Answers({"http://b/api/overview": overview}), ("http://a", "http://b"))

    assert "http://a: nobody there" in caught.value.where
    assert "http://b is not active" in caught.value.where
