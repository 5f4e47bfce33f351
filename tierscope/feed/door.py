"""A publisher's lock in use: who may connect is answered, and addresses are bound anew with a new key."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass

import zmq

from tierscope.feed.curve import ZAP_ENDPOINT, ServerLock
from tierscope.feed.sockets import Context, Socket

log = logging.getLogger(__name__)

KEY_LOOK_MILLISECONDS = 1_000
"""How often it is looked whether the key is another, and a taken address is tried again."""

FREED_TRIES, FREED_PAUSE_MILLISECONDS = 50, 20
"""An address that is unbound is free a moment later, when libzmq's own thread has closed its listener."""


@dataclass(slots=True)
class _Guarded:
    """An address that is to be bound whenever it can be."""

    socket: Socket
    endpoint: str
    is_bound: bool = True
    failures: int = 0

    def unbind(self) -> None:
        """Accept no new connection; those that are open stay."""
        if not self.is_bound:
            return
        self.is_bound, self.failures = False, 0
        try:
            self.socket.unbind(self.endpoint)
        except zmq.ZMQError as error:
            if error.errno != errno.ENOENT:  # it was not bound, as it should be
                raise

    def bind(self, lock: ServerLock) -> None:
        """Try to accept connections with the lock's key."""
        lock.secure(self.socket)
        try:
            self.socket.bind(self.endpoint)
        except zmq.ContextTerminated:
            raise
        except zmq.ZMQError as error:
            self.failures += 1
            if self.failures == FREED_TRIES:
                log.warning(
                    "%s cannot be bound again with the new key, it is tried on: %s", self.endpoint, error
                )
        else:
            self.is_bound = True
            if self.failures >= FREED_TRIES:
                log.warning("%s is bound again", self.endpoint)


class Door:
    """Where a publisher's context asks who may connect, and the addresses that are bound with its key.

    A context has one publisher that asks. Nothing waits in here: whoever serves calls `answer` when `gate`
    can be read, and looks after `patience_milliseconds` again whether `exchange_is_due`.
    """

    def __init__(self, lock: ServerLock, context: Context) -> None:
        self._lock = lock
        self._guarded: list[_Guarded] = []
        self._bound_with = lock.key
        self.gate: Socket = context.socket(zmq.REP)
        self.gate.linger = 0
        self.gate.bind(ZAP_ENDPOINT)

    def secure(self, socket: Socket) -> None:
        """Let what the socket binds from now on be encrypted."""
        self._lock.secure(socket)

    def guard(self, socket: Socket, endpoint: str) -> None:
        """Bind this address, which is bound now, anew with each new key."""
        self._guarded.append(_Guarded(socket, endpoint))

    def answer(self) -> None:
        """Answer one question of who may connect."""
        self._lock.answer(self.gate)

    @property
    def exchange_is_due(self) -> bool:
        """Whether the key is another, or an address could not be bound yet."""
        return self._lock.key != self._bound_with or not all(one.is_bound for one in self._guarded)

    @property
    def patience_milliseconds(self) -> int:
        """How long nothing needs to be done if nobody asks."""
        freed_soon = any(not one.is_bound and one.failures < FREED_TRIES for one in self._guarded)
        return FREED_PAUSE_MILLISECONDS if freed_soon else KEY_LOOK_MILLISECONDS

    def exchange(self) -> None:
        """Bind with the key as it is now what can be. Nobody else may use the sockets meanwhile."""
        key = self._lock.key
        if key != self._bound_with:
            self._bound_with = key
            for one in self._guarded:
                one.unbind()
        for one in self._guarded:
            if not one.is_bound:
                one.bind(self._lock)

    def close(self) -> None:
        """Free the gate."""
        self.gate.close()
