"""A Curvine cluster as a source, and what it lets others know."""

from __future__ import annotations

import pytest

from exporters.curvine.page_source import CurvineSource
from exporters.pools import PoolFacts
from tierscope.domain.errors import SourceUnreadable

URL = "http://master"


class Answers:
    """Stands in for a fetcher; nobody answers while it is `down`."""

    def __init__(self, pages):
        self.pages = pages
        self.down = False

    def get(self, url):
        if self.down:
            raise SourceUnreadable("nobody there", where=url, fix="start it")
        return self.pages[url]


@pytest.fixture
def answers(captures):
    folder = captures / "curvine"
    return Answers(
        {
            f"{URL}/api/overview": (folder / "api-overview.derived.json").read_bytes(),
            f"{URL}/api/workers": (folder / "api-workers-main.derived.json").read_bytes(),
            f"{URL}/metrics": (folder / "master-main.derived.prom").read_bytes(),
        }
    )


def test_others_know_whether_the_master_tells_the_size(answers):
    """Before its first answer, they wait for it; while none can be had, they tell it themselves."""
    facts = PoolFacts()
    source = CurvineSource("pool", (URL,), facts)
    assert facts.master_tells

    answers.down = True
    with pytest.raises(SourceUnreadable):
        source.read(answers, 1.0)
    assert not facts.master_tells

    answers.down = False
    source.read(answers, 2.0)
    assert facts.master_tells
