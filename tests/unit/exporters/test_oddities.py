"""Input that could not be placed is counted always and told seldom."""

from __future__ import annotations

import pytest

from exporters.oddities import MOST_KINDS, Finding, Oddities, Oddity, Repeats
from tierscope.domain.errors import BadInput
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.severity import Severity

SOURCE = SourceId(SourceKind.VLLM_EVENTS, "ns/chat/pod-0/0")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def oddities(clock, told):
    return Oddities(lambda message, *args: told.append(message % args), monotonic=clock)


def oddity(what="strange tag", count=1):
    return Oddity(what, BadInput(f"a {what}", where="here", fix="report it"), count)


def counts(oddities):
    return {sample.labels[1]: sample.value for sample in oddities.samples()}


def test_each_kind_is_told_once_and_then_once_a_minute(oddities, told, clock):
    """Ten in a row are one message; a minute later the next one says how many there were."""
    for _ in range(10):
        oddities.note(SOURCE, [oddity()])
    clock.now = 61
    oddities.note(SOURCE, [oddity(count=5)])

    assert len(told) == 2
    assert "report it" in told[0]
    assert "15 so far" in told[1]
    assert counts(oddities) == {"strange tag": 15}


def test_kinds_are_bounded(oddities):
    """A source that invents a new kind each time fills one last kind; nothing is lost from the sum."""
    oddities.note(SOURCE, [oddity(f"kind {i}") for i in range(1000)])

    found = counts(oddities)
    assert len(found) == MOST_KINDS
    assert sum(found.values()) == 1000
    assert found["other"] == 1000 - (MOST_KINDS - 1)


def finding(kind="suspect counter", severity=Severity.WARNING):
    return Finding(kind, severity, BadInput(f"a {kind}", where="here", fix="use another"))


def test_a_finding_holds_until_its_source_is_read_without_it(oddities, told):
    """It is told when it is new, shown as 1 while it holds, and gone when its cause is."""
    oddities.hold(SOURCE, [finding()])
    oddities.hold(SOURCE, [finding(), finding("worse", Severity.CRITICAL)])
    assert {sample.labels: sample.value for sample in oddities.samples()} == {
        (str(SOURCE), "suspect counter", "warning"): 1,
        (str(SOURCE), "worse", "critical"): 1,
    }

    oddities.hold(SOURCE, [])

    assert list(oddities.samples()) == []
    assert [message.count("use another") for message in told] == [1, 1]


def test_a_message_may_be_said_again_once_it_was_forgotten(clock):
    """What is over and begins anew is news."""
    repeats = Repeats(clock)
    assert repeats.due("down")
    assert not repeats.due("down")

    repeats.forget("down")

    assert repeats.due("down")
