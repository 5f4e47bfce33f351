"""The addresses at which LMCache inside an engine finds its controller: we listen, and answer little."""

from __future__ import annotations

import logging

import zmq

from exporters.health import Health, Units
from exporters.lmcache.controller import Controller, Message, answer_to, decode_messages
from exporters.oddities import Oddity
from exporters.pages import Desk, fault
from tierscope.domain.errors import BadInput, BadSettings, SourceUnreadable, TierscopeError
from tierscope.domain.worker import Worker
from tierscope.feed.sockets import Context

log = logging.getLogger(__name__)

WAIT_MILLISECONDS = 200
"""Longest wait for a message, and so for a stop."""

PATIENCE_SECONDS = 15.0
"""How long no worker may have said anything before the source is said to be down."""


class ControllerListener(Worker):
    """Takes what the workers of one engine push, and answers those that ask, on a thread of its own.

    Raises `BadSettings` for an address that cannot be bound.
    """

    def __init__(
        self,
        controller: Controller,
        health: Health,
        desk: Desk,
        *,
        pull_endpoint: str,
        reply_endpoint: str | None,
        context: Context,
    ) -> None:
        super().__init__(f"controller {health.source}")
        self._controller = controller
        self._health = health
        self._desk = desk
        self._heard = False
        self._pull = _bound(context, zmq.PULL, pull_endpoint)
        self._router = None if reply_endpoint is None else _bound(context, zmq.ROUTER, reply_endpoint)
        self._began: float | None = None

    @property
    def pull_endpoint(self) -> str:
        """Where workers push, wildcards resolved."""
        return self._pull.getsockopt_string(zmq.LAST_ENDPOINT)

    @property
    def waits(self) -> bool:
        """Whether it has listened, and no worker has said anything yet."""
        return self._began is not None

    @property
    def reply_endpoint(self) -> str | None:
        """Where workers ask, wildcards resolved; None where nobody answers."""
        return None if self._router is None else self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def close(self) -> None:
        """Free the addresses; the thread must have ended."""
        self._pull.close(0)
        if self._router is not None:
            self._router.close(0)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._pull, zmq.POLLIN)
        if self._router is not None:
            poller.register(self._router, zmq.POLLIN)
        while not self._stopping.is_set():
            try:
                for socket, _ in poller.poll(WAIT_MILLISECONDS):
                    self._hear(socket)
                self._look_at_link()
            except Exception as error:  # a fault of ours must not end the source
                log.exception("%s: reading it failed", self._health.source)
                self._health.failed(fault(error, self._health.source))

    def _hear(self, socket: zmq.Socket[bytes]) -> None:
        frames = socket.recv_multipart()
        asks = socket is self._router
        for payload in frames[-1:] if asks else frames:
            for message in self._take(payload):
                if asks:
                    socket.send_multipart([frames[0], b"", answer_to(message)])

    def _take(self, payload: bytes) -> list[Message]:
        source = self._health.source
        self._heard = True
        try:
            messages = decode_messages(payload, where=str(source))
        except BadInput as error:
            self._health.take(Units(undecodable=1))
            self._desk.post(source, (), [Oddity("undecodable message", error)])
            return []
        for message in messages:
            reading = self._controller.message(message, self._desk.clock())
            self._health.take(Units(received=reading.records, missing=reading.missing))
            self._health.mark_stale(self._controller.stale)
            self._desk.post(source, reading.entries, reading.oddities)
        return messages

    def _look_at_link(self) -> None:
        if self._heard:
            self._health.succeeded()
            return
        now = self._desk.monotonic()
        if self._began is None:
            self._began = now
        if now - self._began >= PATIENCE_SECONDS:
            self._health.failed(_nobody(self._health))


def _bound(context: Context, kind: int, endpoint: str) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = context.socket(kind)
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close(0)
        raise BadSettings([_unbindable(endpoint, error)]) from error
    return socket


def _unbindable(endpoint: str, error: zmq.ZMQError) -> TierscopeError:
    return TierscopeError(
        f"the address {endpoint} cannot be bound: {error}",
        where="exporter.lmcache_in_process, controller_endpoint",
        fix="give a free address of this machine, such as tcp://127.0.0.1:9100",
    )


def _nobody(health: Health) -> SourceUnreadable:
    return SourceUnreadable(
        "no worker has said anything to its controller",
        where=str(health.source),
        fix="start LMCache with enable_controller and these addresses as controller_pull_url and "
        "controller_reply_url, without tcp://",
    )
