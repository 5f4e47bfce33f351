"""The API's server: who may ask, TLS, and a connection that does not wait for ever for a request."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

from tierscope.domain.errors import BadSettings, TierscopeError

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from api.access import Access
    from tierscope.domain.settings import ApiSettings, KubernetesSettings
    from tierscope.domain.tls_settings import TlsSettings


def access_of(api: ApiSettings, kubernetes: KubernetesSettings | None) -> Access | None:
    """Who decides on tokens; None on loopback where nothing is configured. Raises `BadSettings`."""
    from api.access import KubernetesReviews, TokenFile

    if api.token_file is not None and api.kubernetes_reviews:
        raise _problem("token_file and kubernetes_reviews are both set", "leave one of them out")
    if api.token_file is not None:
        return TokenFile(api.token_file)
    if api.kubernetes_reviews:
        from collectors.kube.client import connect

        found = (kubernetes.kubeconfig, kubernetes.context) if kubernetes else (None, None)
        return KubernetesReviews(connect(*found).create, time.monotonic)
    if not is_loopback(api.listen_host):
        raise _problem(
            f"{api.listen_host} can be reached from other machines, and nothing says who may ask",
            "set api.token_file or api.kubernetes_reviews, or listen on 127.0.0.1",
        )
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server_of(app: FastAPI, api: ApiSettings) -> uvicorn.Server:
    """The server of an app, not yet started. Raises `BadSettings` for a certificate that cannot be used."""
    import uvicorn

    from api.patience import impatient
    from tierscope.telemetry.tls import server_context

    tls = _tls_of(api)
    context = None if tls is None else server_context(tls)
    config = uvicorn.Config(
        app,
        log_level="warning",
        lifespan="off",
        access_log=False,
        http=impatient(api.request_seconds),
        ssl_certfile=api.tls_certificate_file,
        ssl_keyfile=api.tls_key_file,
        server_header=False,
    )
    config.load()
    config.ssl = context  # it exchanges certificates under a running server
    return uvicorn.Server(config)


def _tls_of(api: ApiSettings) -> TlsSettings | None:
    """The API's TLS; None for plain HTTP."""
    from tierscope.domain.tls_settings import TlsSettings

    certificate, key, clients = api.tls_certificate_file, api.tls_key_file, api.tls_client_ca_file
    if certificate is None and key is None and clients is None:
        return None
    if certificate is None or key is None:
        raise _problem(
            "tls_certificate_file and tls_key_file belong together, and tls_client_ca_file to them",
            "set both, or none of the three",
        )
    return TlsSettings(certificate_file=certificate, key_file=key, client_ca_file=clients)


def addresses(listener_name: tuple[str, int], *, is_tls: bool) -> dict[str, str]:
    """Where the API answers, where its page for people is and where its documentation."""
    host, port = listener_name
    base = f"http{'s' if is_tls else ''}://{host}:{port}"
    return {"api": base, "report": f"{base}/", "docs": f"{base}/docs"}


def _problem(what: str, fix: str) -> BadSettings:
    return BadSettings([TierscopeError(what, where="settings, api", fix=fix)])
