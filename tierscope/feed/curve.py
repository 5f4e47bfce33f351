"""A stream that is encrypted and read by known readers alone: ZMQ's CURVE, with keys from files.

A key file holds one key as ZMQ writes it, 40 characters of Z85; the readers' file a name and a key a line.
Lines that begin with # are comments. Files are read again when they change; while their new text cannot be
used, the old one counts.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import zmq
from zmq.utils import z85

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.tls_settings import FeedClientKeys, FeedServerKeys
from tierscope.domain.watched_files import WatchedFiles
from tierscope.feed.sockets import Socket

log = logging.getLogger(__name__)

KEY_LETTERS = 40
ZAP_ENDPOINT = "inproc://zeromq.zap.01"
"""Where libzmq asks, in each context, who may connect (ZeroMQ RFC 27)."""
_VERSION = b"1.0"


class ServerLock:
    """The publisher's end: its secret key, and who may connect."""

    def __init__(self, keys: FeedServerKeys) -> None:
        self._key = _watched_key(keys.key_file)
        self._clients = WatchedFiles([keys.clients_file], partial(read_names, Path(keys.clients_file)))

    @property
    def key(self) -> bytes:
        """The secret key to bind with now."""
        return self._key.value

    def secure(self, socket: Socket) -> None:
        """Let what is bound from now on be encrypted, and ask `answer` about every reader."""
        key = self.key
        socket.curve_secretkey = key
        socket.curve_publickey = zmq.curve_public(key)
        socket.curve_server = True
        socket.zap_domain = b"feed"

    def answer(self, gate: Socket) -> None:
        """Answer one question of libzmq's, received on a REP socket bound at `ZAP_ENDPOINT`."""
        frames = gate.recv_multipart()
        if len(frames) != 7 or frames[0] != _VERSION or frames[5] != b"CURVE":
            gate.send_multipart(
                [_VERSION, frames[1] if len(frames) > 1 else b"", b"400", b"no key", b"", b""]
            )
            return
        name = self._clients.value.get(z85.encode(frames[6]))
        if name is None:
            log.warning("a reader of the feed at %s was refused: nobody knows its key", frames[3].decode())
            gate.send_multipart([_VERSION, frames[1], b"400", b"unknown key", b"", b""])
            return
        gate.send_multipart([_VERSION, frames[1], b"200", b"OK", name.encode(), b""])


class ClientKey:
    """The subscriber's end: its own secret key, and the publisher's public one."""

    def __init__(self, keys: FeedClientKeys) -> None:
        self._key = _watched_key(keys.key_file)
        self._server = _watched_key(keys.server_key_file)

    @property
    def keys(self) -> tuple[bytes, bytes]:
        """The keys to connect with now: our secret one, and the publisher's."""
        return self._key.value, self._server.value

    def secure(self, socket: Socket) -> None:
        """Let what is connected from now on be encrypted."""
        secret, server = self.keys
        socket.curve_secretkey = secret
        socket.curve_publickey = zmq.curve_public(secret)
        socket.curve_serverkey = server


def read_key(path: Path) -> bytes:
    """The one key of a file. Raises `BadSettings`."""
    lines = [words for _, words in _lines(path)]
    if len(lines) != 1 or len(lines[0]) != 1 or not _is_key(lines[0][0]):
        raise _wrong("this is no file of one key", str(path))
    return lines[0][0].encode()


def read_names(path: Path) -> dict[bytes, str]:
    """Names by public key. Raises `BadSettings` naming every line that is not right."""
    found: dict[bytes, str] = {}
    problems: list[TierscopeError] = []
    for number, words in _lines(path):
        if len(words) != 2 or not _is_key(words[1]):
            problems += _wrong("this is no name and public key", f"{path}, line {number}").problems
        else:
            found[words[1].encode()] = words[0]
    if problems:
        raise BadSettings(problems)
    return found


def _watched_key(path: str) -> WatchedFiles[bytes]:
    return WatchedFiles([path], partial(read_key, Path(path)))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(f"a file of keys cannot be read: {error}", str(path)) from error
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def _is_key(text: str) -> bool:
    try:
        return len(text) == KEY_LETTERS and len(z85.decode(text.encode())) == 32
    except (KeyError, ValueError, struct.error):  # the last: five letters of more than 32 bits
        return False


def _wrong(what: str, where: str) -> BadSettings:
    return BadSettings([TierscopeError(what, where=where, fix="make it with `tierscope feed-keys`")])
