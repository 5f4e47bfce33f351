"""Trouble is said, but not over and over."""

from __future__ import annotations

import pytest

from collectors.complaints import REPEAT_SECONDS, Complaints
from tierscope.domain.errors import SourceUnreadable

TROUBLE = SourceUnreadable("nobody is there", where="tcp://here", fix="start it")


@pytest.fixture
def said(caplog):
    """Return a function that says how often something was logged so far."""
    caplog.set_level("INFO", logger="collectors")
    return lambda: [record.getMessage() for record in caplog.records]


def test_trouble_is_said_once_a_minute(said):
    """The same trouble of one is repeated after a minute; another's is said at once."""
    now = [0.0]
    complaints = Complaints(lambda: now[0])
    for second in (0.0, 1.0, REPEAT_SECONDS - 1, REPEAT_SECONDS, REPEAT_SECONDS + 1):
        now[0] = second
        complaints.say("feed:a", TROUBLE)
    complaints.say("feed:b", TROUBLE)

    assert [message.partition(":")[2][:1] for message in said()] == ["a", "a", "b"]
    assert "nobody is there (where: tcp://here; fix: start it)" in said()[0]


def test_the_end_of_trouble_is_said_once(said):
    """Who was never in trouble is not said to be well again."""
    complaints = Complaints(lambda: 0.0)
    complaints.over("feed:a")
    complaints.say("feed:a", TROUBLE)
    complaints.over("feed:a")
    complaints.over("feed:a")
    complaints.say("feed:a", TROUBLE)

    assert [("well again" in message) for message in said()] == [False, True, False]
