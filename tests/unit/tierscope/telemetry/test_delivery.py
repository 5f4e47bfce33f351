"""Failures to send are told at most once a minute, with the reason that only the library's log knows."""

from __future__ import annotations

import logging
import threading

import pytest

from tierscope.telemetry.delivery import LIBRARY_LOGGERS, Delivery

ADDRESS = "http://collector:4317"


class Clock:
    """Seconds as the test sets them."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def delivery(clock):
    return Delivery("spans", ADDRESS, monotonic=clock)


def refused():
    return False


def saying(*lines, logger=LIBRARY_LOGGERS[0]):
    """A send that fails as the library does: it logs, and says no more than that it failed."""

    def send():
        for line in lines:
            logging.getLogger(logger).warning("%s", line)
        return False

    return send


def test_what_was_taken_is_said_to_be(delivery, caplog):
    """And nothing is logged."""
    assert delivery.attempt(lambda: True)
    assert not delivery.attempt(refused)

    assert len(caplog.messages) == 1


def test_a_failure_is_told_once_a_minute_and_counted_meanwhile(delivery, clock, caplog):
    """However often it is tried."""
    for _ in range(600):
        delivery.attempt(refused)
        clock.seconds += 0.1
    clock.seconds += 1
    delivery.attempt(refused)

    assert caplog.messages == [
        f"spans were not taken by {ADDRESS} (1 times so far): no reason given",
        f"spans were not taken by {ADDRESS} (601 times so far): no reason given",
    ]


@pytest.mark.parametrize("logger", LIBRARY_LOGGERS)
def test_the_reason_is_what_the_library_logs(delivery, caplog, logger):
    """Its first line says why, its last what became of it; none is logged by itself, nor repeated."""
    delivery.attempt(saying("connection refused", "again", "gave up", logger=logger))

    assert caplog.messages == [
        f"spans were not taken by {ADDRESS} (1 times so far): connection refused; gave up"
    ]


def test_one_line_is_one_reason(delivery, caplog):
    """Not said twice for being both the first and the last."""
    delivery.attempt(saying("connection refused"))

    assert caplog.messages[0].endswith(": connection refused")


def test_what_sending_raises_is_a_failure(delivery, caplog):
    """The library may raise: on a closed channel, for instance."""

    def send():
        raise ValueError("closed channel")

    assert not delivery.attempt(send)
    assert caplog.messages[-1].endswith(": ValueError('closed channel')")


def test_another_threads_lines_are_left_alone(delivery, caplog):
    """Somebody else may use the library in our process and want to read its log."""

    def send():
        other = threading.Thread(target=saying("of somebody else", logger=LIBRARY_LOGGERS[1]))
        other.start()
        other.join()
        return True

    delivery.attempt(send)
    saying("afterwards", logger=LIBRARY_LOGGERS[1])()

    assert caplog.messages == ["of somebody else", "afterwards"]
