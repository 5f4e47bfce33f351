"""What the page counts of what is read again, and what is written down of it."""

from __future__ import annotations

import json

import pytest

from exporters import page_state
from exporters.page_state import Counted, PageState, Position, Told
from tierscope.domain.identity import SourceId, SourceKind

HOOK = SourceId(SourceKind.VLLM_HOOK, "ns/chat/pod-0/0")
EVENTS = SourceId(SourceKind.VLLM_EVENTS, "ns/chat/pod-0/0")
BEGAN = 1000.0


def counted(counter, *messages):
    """Of messages (sequence, time, whether it was before us), those that count."""
    return [sequence for sequence, at, before in messages if counter.take(sequence, at, before=before)]


def replayed(*times, start=0):
    return [(sequence, at, True) for sequence, at in enumerate(times, start)]


def test_a_first_run_counts_whatever_there_is():
    """Nobody has counted it before."""
    assert counted(Counted(), *replayed(1.0, 2.0)) == [0, 1]


def test_a_later_run_counts_on_where_the_page_stood():
    """What the earlier run had shown is not shown again; what it had not, is."""
    assert counted(Counted(Position(2, 30.0)), *replayed(10.0, 20.0, 30.0, 30.0, 40.0)) == [3, 4]


def test_another_life_of_the_publisher_counts_from_its_start():
    """Its numbers begin at 0 again, its times do not."""
    assert counted(Counted(Position(500, 30.0)), *replayed(31.0, 32.0)) == [0, 1]


@pytest.mark.parametrize(("earlier", "messages", "met"), [
    (None, replayed(31.0), False),
    (Position(500, 30.0), replayed(31.0, 32.0), True),
    (Position(500, 30.0), replayed(None, 32.0), True),
    (Position(1, 30.0), replayed(29.0, 30.0, 31.0), False),
    (Position(1, 30.0), replayed(31.0, start=2), False),
    (Position(1, 30.0), replayed(31.0, start=7), False),  # of which life it is cannot be told
])  # fmt: skip
def test_a_restart_that_nobody_saw_shows_in_a_number_that_comes_again_later(earlier, messages, met):
    """What an earlier run had read until is of another life then; without such a sign nothing is claimed."""
    counter = Counted(earlier)
    counted(counter, *messages)

    assert counter.met_another_life is met


def test_a_restart_under_our_eyes_begins_the_pages_time():
    """Even where the new life's clock is behind."""
    counter = Counted(Position(500, 30.0))
    assert counted(counter, (499, 29.0, True)) == []

    counter.begin()

    assert counted(counter, (0, 5.0, False)) == [0]


def test_a_message_without_a_time_is_judged_by_its_number():
    """It is as late as the one before it."""
    assert counted(Counted(Position(1, 30.0)), (0, None, True), (1, None, True), (2, None, True)) == [2]


def test_where_nothing_is_known_what_was_said_before_us_does_not_count():
    """An earlier run may have counted it; a publisher that came after us was heard by nobody else."""
    counter = Counted(None, is_known=False, began_unix_seconds=BEGAN)
    assert counted(counter, *replayed(998.0, 999.0), (2, 999.5, False)) == [2]

    later = Counted(None, is_known=False, began_unix_seconds=BEGAN)
    assert counted(later, *replayed(1001.0, 1002.0)) == [0, 1]


def test_what_waited_counts_if_the_message_that_told_it_does():
    """An admission may wait for its lookup longer than it takes to read what follows."""
    counter = Counted(Position(1, 30.0))
    counted(counter, *replayed(10.0, 30.0, 40.0))

    told = [Told("r", at) for at in (10.0, 30.0, 31.0, 40.0)]
    assert [counter.counts(each) for each in told] == [False, False, True, True]


def test_what_still_waited_when_the_earlier_run_ended_counts_once():
    """Whether it waits again or not; and if this run ends before it has come, in the next one."""
    late, known = Told("late", 20.0), Told("known", 20.0)
    counter = Counted(Position(1, 30.0, frozenset({"late"})))
    counted(counter, *replayed(10.0, 30.0))
    assert counter.position([known]).waiting == {"late"}
    counted(counter, (2, 40.0, True))
    assert counter.position([known, late, Told("new", 40.0)]).waiting == {"late", "new"}

    assert [counter.counts(each) for each in (known, late, late)] == [False, True, False]
    assert counter.position([known]).waiting == set()


def test_who_ends_before_it_has_caught_up_has_counted_no_less():
    """A page read in the middle of a replay says where the earlier run stood, not where the replay is."""
    counter = Counted(Position(500, 30.0))
    counted(counter, (3, 1.0, True))

    assert counter.position(()) == Position(500, 30.0)


def test_what_is_lost_is_missing_where_nobody_had_it():
    """A ring that has lost its beginning: what an earlier run had read of it is not missing now."""
    assert Counted().lost_before(0, 9) == 0
    assert Counted(None, is_known=False, began_unix_seconds=BEGAN).lost_before(0, 9) == 10
    resumed = Counted(Position(6, 30.0))
    assert [resumed.lost_before(*gap) for gap in ((0, 3), (0, 9), (7, 9))] == [4, 7, 0]
    resumed.begin()
    assert resumed.lost_before(0, 9) == 0


@pytest.fixture
def file(tmp_path):
    return tmp_path / "page.json"


def test_what_is_written_down_is_found_again(file):
    """Also of a stream that has said nothing since, or whose pod is not found at once."""
    first = PageState(str(file), "node")
    assert first.is_known
    assert first.position(HOOK) is None
    waiting = Position(7, 30.5, frozenset({"a 0", "b 1"}))
    first.keep({HOOK: waiting, EVENTS: Position(3, 30.0)})

    second = PageState(str(file), "node")
    assert second.position(HOOK) == waiting
    second.keep({})

    third = PageState(str(file), "node")
    assert third.position(HOOK) == waiting
    assert third.position(EVENTS) == Position(3, 30.0)


def test_of_ever_new_pods_the_latest_are_kept(file, monkeypatch):
    """A file does not grow for as long as there are pods."""
    monkeypatch.setattr(page_state, "MOST_STREAMS", 2)
    sources = [SourceId(SourceKind.VLLM_HOOK, f"ns/chat/pod-{number}/0") for number in range(3)]
    state = PageState(str(file), "node")
    state.keep({source: Position(0, at) for source, at in zip(sources, (5.0, 1.0, 3.0), strict=True)})

    again = PageState(str(file), "node")
    assert [again.position(source) is not None for source in sources] == [True, False, True]


def test_without_a_file_nothing_is_known():
    """And nothing is written."""
    state = PageState(None, "node")
    state.keep({HOOK: Position(7, 30.5)})

    assert not state.is_known
    assert state.position(HOOK) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"exporter": "other", "streams": {}}', b"\xff\xfe"])
def test_a_file_that_says_nothing_is_told_and_replaced(file, caplog, content):
    """Someone may have counted: nobody knows what. The next page says where it stands."""
    file.write_bytes(content)
    state = PageState(str(file), "node")
    assert not state.is_known
    assert str(file) in caplog.text

    state.keep({HOOK: Position(7, 30.5)})

    assert json.loads(file.read_bytes())["streams"] == {str(HOOK): [7, 30.5, []]}


def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(tmp_path, caplog):
    """The page itself goes on."""
    folder = tmp_path / "later"
    state = PageState(str(folder / "page.json"), "node")
    state.keep({HOOK: Position(7, 30.5)})
    state.keep({HOOK: Position(8, 31.0)})
    assert caplog.text.count("cannot be written down") == 1

    folder.mkdir()
    state.keep({HOOK: Position(8, 31.0)})

    assert PageState(str(folder / "page.json"), "node").position(HOOK) == Position(8, 31.0)
