"""Addresses that are bound anew with a new key, also where somebody else takes them first."""

from __future__ import annotations

from contextlib import closing

import pytest
import zmq

from tests.exporting import await_true
from tests.feed_keys import Keys
from tierscope.feed.door import FREED_TRIES, Door


class Contested:
    """A socket whose address a rival takes as soon as it is left."""

    def __init__(self, socket, rival):
        self._socket = socket
        self._rival = rival

    def bind(self, endpoint):
        self._socket.bind(endpoint)

    def unbind(self, endpoint):
        self._socket.unbind(endpoint)
        await_true(lambda: is_bound(self._rival, endpoint), "the rival has the address")


def is_bound(socket, endpoint):
    """Bind, if the address is free."""
    try:
        socket.bind(endpoint)
    except zmq.ZMQError:
        return False
    return True


@pytest.fixture
def context():
    with zmq.Context() as context:
        yield context


def test_an_address_that_was_taken_is_bound_when_it_is_free(context, tmp_path, caplog):
    """Further keys meanwhile are no error, it is said once, and no attempt waits for another."""
    keys = Keys(tmp_path)
    with (
        closing(Door(keys.lock(), context)) as door,
        context.socket(zmq.PUB) as socket,
        context.socket(zmq.PUB) as rival,
    ):
        socket.bind("tcp://127.0.0.1:*")
        endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        door.guard(Contested(socket, rival), endpoint)
        assert not door.exchange_is_due
        for _ in range(FREED_TRIES):
            keys.new_server_key()
            assert door.exchange_is_due
            door.exchange()
        assert door.exchange_is_due
        assert caplog.text.count("cannot be bound again") == 1
        rival.unbind(endpoint)

        await_true(lambda: door.exchange() or not door.exchange_is_due, "it is bound again")
        assert not is_bound(rival, endpoint)


def test_an_address_that_is_not_bound_is_bound_with_the_next_key(context, tmp_path):
    """Whatever unbound it."""
    keys = Keys(tmp_path)
    with closing(Door(keys.lock(), context)) as door, context.socket(zmq.PUB) as socket:
        socket.bind("tcp://127.0.0.1:*")
        endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        door.guard(socket, endpoint)
        socket.unbind(endpoint)
        keys.new_server_key()

        await_true(lambda: door.exchange() or not door.exchange_is_due, "it is bound again")
        with context.socket(zmq.PUB) as other:
            assert not is_bound(other, endpoint)
