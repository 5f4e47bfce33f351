"""Files of keys of an encrypted stream, to be exchanged by a test."""

from __future__ import annotations

import zmq

from tierscope.domain.tls_settings import FeedClientKeys, FeedServerKeys
from tierscope.feed.curve import ClientKey, ServerLock, read_key


class Keys:
    """Files of one publisher and its readers."""

    def __init__(self, folder):
        self.folder = folder
        self.readers = folder / "readers"
        self.readers.write_text("# nobody yet\n")
        self.new_server_key()

    def new_server_key(self):
        public, secret = zmq.curve_keypair()
        self._write("exporter.pub", public.decode())
        self._write("exporter.key", secret.decode())

    def new_reader(self, name, *, known=True):
        public, secret = zmq.curve_keypair()
        self._write(name, secret.decode())
        if known:
            self.let_in(name)
        return public.decode()

    def let_in(self, name):
        public = zmq.curve_public(read_key(self.folder / name)).decode()
        self.readers.write_text(f"{self.readers.read_text()}{name} {public}\n")

    def lock(self):
        return ServerLock(
            FeedServerKeys(key_file=str(self.folder / "exporter.key"), clients_file=str(self.readers))
        )

    def key(self, name):
        return ClientKey(
            FeedClientKeys(
                key_file=str(self.folder / name), server_key_file=str(self.folder / "exporter.pub")
            )
        )

    def _write(self, name, text):
        new = self.folder / f".{name}"
        new.write_text(f"{text}\n")
        new.replace(self.folder / name)
