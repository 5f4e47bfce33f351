"""Which of several masters is asked, and what is done without its API."""

from __future__ import annotations

import pytest

from exporters.curvine.fetch import Masters
from tests.curvine_cluster import Answers, master_pages, text
from tierscope.domain.errors import SourceUnreadable


@pytest.fixture
def folder(captures):
    return captures / "curvine"


def standby(folder):
    return (folder / "api-overview.derived.json").read_bytes().replace(b"Active", b"Standby")


def test_the_active_master_is_found_among_all(folder):
    """One is down, one stands by, the third answers for the pool; only paths that read are asked."""
    pages = {"http://b/api/overview": standby(folder), **master_pages(folder, "http://c")}
    answers = Answers(pages)

    answer = Masters(("http://a", "http://b/", "http://c/")).ask(answers)

    assert answer.url == "http://c"
    assert answer.workers == pages["http://c/api/workers"]
    assert answer.config == pages["http://c/api/config"]
    asked = {url.partition("://")[2].partition("/")[2] for url in answers.asked}
    assert asked == {"api/overview", "api/workers", "api/config", "metrics"}


def test_after_a_failover_the_new_active_master_answers(folder):
    """The one that was active is asked first, and no other while it is."""
    answers = Answers({**master_pages(folder, "http://b"), "http://a/api/overview": standby(folder)})
    masters = Masters(("http://a", "http://b"))
    assert masters.ask(answers).url == "http://b"
    answers.asked.clear()
    assert masters.ask(answers).url == "http://b"
    assert not any("http://a" in url for url in answers.asked)

    answers.pages["http://b/api/overview"] = standby(folder)
    answers.pages |= master_pages(folder, "http://a")

    assert masters.ask(answers).url == "http://a"


def test_without_its_api_a_master_with_workers_counts(folder):
    """A standby has no workers and is left alone; that settings and workers are missing is told."""
    idle = text(folder, "master-main").replace(b'worker_num{tag="live"} 2', b'worker_num{tag="live"} 0')
    answers = Answers({"http://a/metrics": idle, "http://b/metrics": text(folder, "master-main")})

    answer = Masters(("http://a", "http://b")).ask(answers)

    assert (answer.url, answer.workers, answer.config) == ("http://b", None, None)
    assert "page alone" in answer.refusals[0].what


def test_a_part_that_cannot_be_had_costs_that_part(folder):
    """The settings hold secrets and may be locked away; the pool is read all the same."""
    pages = master_pages(folder)
    del pages["http://master:9000/api/config"]

    answer = Masters(("http://master:9000",)).ask(Answers(pages))

    assert answer.workers is not None
    assert answer.config is None
    assert len(answer.refusals) == 1


def test_without_an_active_master_all_answers_are_told(folder):
    """A person sees at once which master said what."""
    answers = Answers({"http://b/api/overview": standby(folder)})

    with pytest.raises(SourceUnreadable) as caught:
        Masters(("http://a", "http://b")).ask(answers)

    assert "http://a: nobody there" in caught.value.where
    assert "http://b is not active" in caught.value.where
