"""TLS of what we serve: certificates from files, exchanged under a running server."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.tls_settings import TlsSettings
from tierscope.domain.watched_files import WatchedFiles


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """The context to serve with; a handshake uses the files as they are by then.

    TLS 1.3 without tickets: a session that is resumed would not show its certificate again.

    A client without a certificate of `client_ca_file` is refused, where there is one. While changed files
    cannot be used, those before them count. Raises `BadSettings` for files that cannot be used at first.
    """
    newest = WatchedFiles(_files(tls), partial(_loaded, tls))

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = newest.value

    serving = newest.value
    # Called at every handshake, also of clients that name no server.
    serving.sni_callback = choose
    return serving


def _files(tls: TlsSettings) -> Sequence[str]:
    return [tls.certificate_file, tls.key_file, *([tls.client_ca_file] if tls.client_ca_file else [])]


def _loaded(tls: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
        if tls.client_ca_file is not None:
            context.load_verify_locations(tls.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        problem = TierscopeError(
            f"the certificate cannot be used: {error}",
            where=", ".join(_files(tls)),
            fix="name a certificate, its key, and who signs clients' certificates, all in PEM",
        )
        raise BadSettings([problem]) from error
    return context
