"""What the faults of a stream do to its batches."""

from __future__ import annotations

from tierscope.testbed.config import StreamFaults
from tierscope.testbed.wire.channel import Channel


class FakeStream:
    """A stream that keeps what it was told."""

    def __init__(self):
        self.published = []

    def publish(self, payload, *, live=True, keep=True):
        self.published.append((payload, live, keep))

    def restart(self):
        self.published.append("restart")


def channel(batches: int, faults: StreamFaults, *, wall_seconds: float = 0.0):
    """A channel given batches at wall second 0 and asked to send at another; what counted as sent."""
    sent: list[int] = []
    found = Channel(FakeStream())
    for number in range(batches):
        found.hold(
            b"%d" % number,
            until_wall_seconds=faults.delay_seconds,
            sent=lambda number=number: sent.append(number),
        )
    found.send_due(wall_seconds, faults)
    return found, sent


def test_without_faults_everything_goes_out_in_order():
    """Each batch is sent live and kept for replay."""
    found, sent = channel(3, StreamFaults())

    assert found.stream.published == [(b"0", True, True), (b"1", True, True), (b"2", True, True)]
    assert sent == [0, 1, 2]
    assert found.empty


def test_a_batch_dropped_live_can_be_replayed_and_counts_as_sent():
    """Every n-th batch is silent, and a reader that notices the gap gets it."""
    found, sent = channel(4, StreamFaults(drop_live_every=2))

    assert [(live, keep) for _, live, keep in found.stream.published] == [(True, True), (False, True)] * 2
    assert sent == [0, 1, 2, 3]


def test_a_lost_batch_is_nowhere_and_not_counted():
    """Every n-th batch uses up its number and is never seen."""
    found, sent = channel(4, StreamFaults(lose_every=3))

    assert found.stream.published[2] == (b"2", False, False)
    assert sent == [0, 1, 3]


def test_a_late_batch_waits_for_its_time():
    """Nothing goes out before the delay is over, everything after."""
    faults = StreamFaults(delay_seconds=2.0)
    found, sent = channel(2, faults, wall_seconds=1.9)
    early = list(sent)

    found.send_due(2.0, faults)

    assert early == []
    assert sent == [0, 1]


def test_a_restart_drops_what_was_not_sent():
    """A dying process takes its last words along."""
    found, sent = channel(2, StreamFaults(delay_seconds=2.0))

    found.restart()

    assert found.empty
    assert sent == []
    assert found.stream.published == ["restart"]
