"""Workers that push to the exporter and ask it, over real sockets."""

from __future__ import annotations

import msgspec
import pytest
import zmq

from exporters.health import Health, Voice
from exporters.ledger import Ledger
from exporters.lmcache.controller import Controller
from exporters.lmcache.controller_listener import PATIENCE_SECONDS, ControllerListener
from exporters.oddities import Oddities
from exporters.pages import Desk
from tests.exporting import await_true
from tierscope.domain.errors import BadSettings
from tierscope.domain.events import BlockAction
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.registry import metrics

SOURCE = SourceId(SourceKind.LMCACHE_CONTROLLER, "inside")
ANYWHERE = "tcp://127.0.0.1:*"


class Listening:
    """A listener with what it posted, and a worker's two sockets."""

    def __init__(self, context):
        self.context = context
        self.now = 0.0
        self.posted = []
        self.warned = []
        self.oddities = Oddities(lambda *_: None, monotonic=lambda: self.now)
        self.health = Health(
            SOURCE,
            fresh_seconds=1e9,
            since_unix_seconds=0.0,
            monotonic=lambda: self.now,
            voice=Voice(warn=lambda *parts: self.warned.append(parts), inform=lambda *_: None),
        )
        desk = Desk(
            Ledger("test", self.posted.extend), self.oddities, clock=lambda: 5.0, monotonic=lambda: self.now
        )
        self.listener = ControllerListener(
            Controller("inside", where=str(SOURCE)),
            self.health,
            desk,
            pull_endpoint=ANYWHERE,
            reply_endpoint=ANYWHERE,
            context=context,
        )
        self.push = context.socket(zmq.PUSH)
        self.push.connect(self.listener.pull_endpoint)
        self.dealer = context.socket(zmq.DEALER)
        self.dealer.connect(self.listener.reply_endpoint)

    def shown(self, metric):
        return {
            sample.labels[1:]: sample.value for sample in self.health.samples() if sample.metric is metric
        }

    def close(self):
        self.listener.stop()
        self.listener.join()
        for socket in (self.push, self.dealer):
            socket.close(0)
        self.listener.close()


@pytest.fixture
def listening():
    with zmq.Context() as context:
        found = Listening(context)
        found.listener.start()
        yield found
        found.close()


def pushed(*chunks):
    operations = [{"op_type": "admit", "key": chunk, "seq_num": i} for i, chunk in enumerate(chunks)]
    return msgspec.msgpack.encode(
        {
            "type": "BatchedKVOperationMsg",
            "instance_id": "i",
            "worker_id": 0,
            "location": "LocalCPUBackend",
            "operations": operations,
        }
    )


def test_what_a_worker_pushes_is_posted(listening):
    """With the time it came at, because it has none of its own."""
    listening.push.send(pushed(1, 2))

    await_true(lambda: listening.posted, "the chunks were posted")
    (event,) = listening.posted
    assert (event.holder, event.action, event.block_hashes) == ("inside", BlockAction.STORED, (1, 2))
    assert event.at_unix_seconds == 5.0
    assert listening.shown(metrics.SOURCE_MESSAGES)["received",] == 2  # operations


def test_a_worker_that_registers_is_answered(listening):
    """LMCache waits for it before it serves."""
    listening.dealer.send_multipart([b"", msgspec.msgpack.encode({"type": "RegisterMsg", "worker_id": 0})])

    assert listening.dealer.poll(10_000)
    empty, answer = listening.dealer.recv_multipart()
    assert (empty, msgspec.msgpack.decode(answer)["type"]) == (b"", "RegisterRetMsg")


def test_what_cannot_be_read_is_counted_and_the_next_is_read(listening):
    """One strange message costs itself."""
    listening.push.send(b"\xc1")
    listening.push.send(pushed(1))

    await_true(lambda: listening.posted, "the chunk was posted")
    assert listening.shown(metrics.SOURCE_MESSAGES)["undecodable",] == 1


def test_a_controller_nobody_talks_to_is_down(listening):
    """It says how LMCache is told of it."""
    listening.now = PATIENCE_SECONDS + 1

    await_true(
        lambda: listening.health.samples() and listening.shown(metrics.SOURCE_UP)[()] == 0, "it is down"
    )


def test_an_address_that_is_taken_is_named():
    """Before anything else starts."""
    with zmq.Context() as context:
        first = Listening(context)
        first.listener.start()
        with pytest.raises(BadSettings, match="cannot be bound"):
            ControllerListener(
                Controller("other", where="x"),
                first.health,
                None,
                pull_endpoint=first.listener.pull_endpoint,
                reply_endpoint=None,
                context=context,
            )
        first.close()
