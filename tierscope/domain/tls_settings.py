"""Settings of what travels encrypted, and of who may connect. Every file is read again when it changes."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.documented import documented


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How a page is served over TLS."""

    certificate_file: str = documented("Certificate (PEM, with its chain); read again when it changes.")
    key_file: str = documented("Key of the certificate (PEM).")
    client_ca_file: str | None = documented(
        "Certificates (PEM) of who signs clients' certificates: nobody is answered without one of theirs. "
        "None: clients need none.",
        default=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedServerKeys:
    """The exporter's end of an encrypted feed (CURVE). `tierscope feed-keys` makes the files."""

    key_file: str = documented("The exporter's secret key; a new one is used from the next connection on.")
    clients_file: str = documented(
        "Who may read the feed: a line each of a name and a public key. It is read again when it changes."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedClientKeys:
    """The collector's end of encrypted feeds (CURVE)."""

    key_file: str = documented("The collector's secret key.")
    server_key_file: str = documented("The exporters' public key; all of them have one.")
