"""TLS of what we serve: certificates from files, exchanged under a running server."""

from __future__ import annotations

import logging
import ssl
import threading

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.file_stamp import Stamp, file_stamp
from tierscope.domain.tls_settings import TlsSettings

log = logging.getLogger(__name__)


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """The context to serve with; a handshake uses the files as they are by then.

    TLS 1.3 without tickets: a session that is resumed would not show its certificate again.

    A client without a certificate of `client_ca_file` is refused, where there is one. While changed files
    cannot be used, those before them count. Raises `BadSettings` for files that cannot be used at first.
    """
    return _Certificates(tls).serving


class _Certificates:
    """Gives each handshake the newest certificates that could be loaded."""

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._stamps = self._look()
        self.serving = self._loaded()
        self._newest = self.serving
        # Called at every handshake, also of clients that name no server.
        self.serving.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        with self._lock:
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._newest = self._loaded()
                except BadSettings as error:
                    log.warning("the certificates before them stay: %s", error.problems[0].one_line())
            connection.context = self._newest

    def _look(self) -> tuple[Stamp, ...]:
        return tuple(file_stamp(name) for name in self._files())

    def _files(self) -> list[str]:
        tls = self._tls
        return [tls.certificate_file, tls.key_file, *([tls.client_ca_file] if tls.client_ca_file else [])]

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        try:
            context.load_cert_chain(self._tls.certificate_file, self._tls.key_file)
            if self._tls.client_ca_file is not None:
                context.load_verify_locations(self._tls.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            problem = TierscopeError(
                f"the certificate cannot be used: {error}",
                where=", ".join(self._files()),
                fix="name a certificate, its key, and who signs clients' certificates, all in PEM",
            )
            raise BadSettings([problem]) from error
        return context
