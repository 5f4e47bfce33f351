"""Several servers at one address, on DERIVED pages: never a restart where there was none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.engines import Engines
from exporters.fetch import Fetcher
from exporters.vllm.page_source import EnginePageSource
from tests.captured import ENGINE
from tierscope.domain.events import EngineTokens


def page(computed, created=None):
    """A DERIVED page: multiprocess servers show no `_created`."""
    labels = 'engine="0",model_name="m"'
    lines = [f"vllm:prompt_tokens_total{{{labels}}} {computed}"]
    if created is not None:
        lines.append(f"vllm:prompt_tokens_created{{{labels}}} {created}")
    lines.append(f"vllm:prefix_cache_queries_total{{{labels}}} {computed}")
    lines.append(f"vllm:prefix_cache_hits_total{{{labels}}} 0")
    return "\n".join(lines) + "\n"


class Page(Fetcher):
    """Answers with the text it was given."""

    def __init__(self, text):
        self.text = text

    def get(self, url):
        return self.text.encode()


def readings(*pages):
    """The pages' readings, one every ten seconds from 1010 on."""
    source = EnginePageSource("http://service/metrics", [ENGINE], Engines(), 1000.0)
    return [source.read(Page(text), 1010.0 + 10 * number) for number, text in enumerate(pages)]


def grown(*readings):
    return [
        sum(entry.tokens.prompt for entry in reading.entries if isinstance(entry, EngineTokens))
        for reading in readings
    ]


def told(reading):
    return [finding.kind for finding in reading.findings]


@pytest.mark.parametrize("marks", [(None, None), (500.0, 700.0), (700.0, 500.0)])
def test_servers_that_answer_in_turn_are_counted_each_by_itself(marks):
    """A page that falls and rises again is no restart: what each server's own counters grew by counts."""
    one, other = marks
    found = readings(
        page(1000, one),
        page(400, other),
        page(1010, one),
        page(425, other),
        page(1010, one),
        page(425, other),
    )

    assert grown(*found) == [0, 0, 10, 25, 0, 0]
    assert not any(reading.restarted for reading in found)
    assert told(found[0]) == told(found[1]) == []
    assert told(found[2]) == told(found[5]) == ["several_servers_on_one_page"]


def test_a_restart_is_still_one():
    """Its mark lies after the last reading of the life before; all it says is new."""
    found = readings(page(1000, 500.0), page(30, 1015.0), page(40, 1015.0))

    assert grown(*found) == [0, 30, 10]
    assert [reading.restarted for reading in found] == [False, True, False]
    assert told(found[2]) == []


def test_without_a_mark_a_fall_is_not_taken_for_a_restart():
    """It may be another server's page; what a new life counted before it was first read is not told."""
    assert grown(*readings(page(1000), page(0), page(70))) == [0, 0, 70]


def test_the_store_is_told_no_state_of_counters_that_are_not_one_servers():
    """It would take each for another life, of which all is new."""
    found = readings(page(1000, 500.0), page(400, 700.0), page(1010, 500.0))
    totals = [entry.total for reading in found[1:] for entry in reading.entries if hasattr(entry, "total")]

    assert totals == [None] * len(totals)


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=30),
    starts=st.tuples(*[st.integers(0, 5000)] * 4),
    marked=st.booleans(),
)
def test_whatever_the_turns_no_more_is_counted_than_grew(steps, starts, marked):
    """With marks exactly what each server's pages grew by from one to the next of it.

    Without, a rise may be another server's page, too: still nothing is counted a second time.
    """
    values = list(starts)
    pages, seen, exact = [], {}, 0
    for server, growth in steps:
        values[server] += growth
        exact += values[server] - seen.get(server, values[server])
        seen[server] = values[server]
        pages.append(page(values[server], 100.0 + server if marked else None))

    counted = sum(grown(*readings(*pages)))

    assert counted == exact if marked else counted <= sum(seen.values())
