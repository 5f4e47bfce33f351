"""The API's server on a real socket: who is let in, TLS, and clients that say nothing."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import httpx
import pytest

from api.app import create_app
from tests.certificates import Authority
from tests.served import running
from tests.stored import StoredInMemory
from tierscope.cli.serve_api import access_of, addresses, is_loopback, server_of
from tierscope.domain.errors import BadSettings
from tierscope.domain.settings import ApiSettings


def serving(**settings):
    """A server over an empty store; its address."""
    return running(server_of(create_app(StoredInMemory(), lambda: 0.0), ApiSettings(**settings)))


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("api.example", False)],
)
def test_loopback_is_told_from_the_rest(host, own):
    """Names are not looked up: only localhost is known to be this machine."""
    assert is_loopback(host) is own


def test_beyond_loopback_somebody_must_decide():
    """Without tokens the API does not start where others reach it."""
    assert access_of(ApiSettings(), None) is None
    with pytest.raises(BadSettings, match="nothing says who may ask"):
        access_of(ApiSettings(listen_host="0.0.0.0"), None)


def test_two_ways_to_decide_are_one_too_many(tmp_path):
    """A file and Kubernetes could disagree."""
    with pytest.raises(BadSettings, match="both set"):
        access_of(ApiSettings(token_file=str(tmp_path / "t"), kubernetes_reviews=True), None)


def test_a_head_that_does_not_come_is_not_waited_for():
    """A connection that says nothing, or half a head, is closed; one that asks is answered."""
    with serving(request_seconds=0.2) as address:
        for said in (b"", b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "):
            with socket.create_connection(address, timeout=30) as client:
                client.sendall(said)
                assert client.recv(100) == b""
        with httpx.Client(base_url=f"http://127.0.0.1:{address[1]}") as client:
            assert [client.get("/health").status_code for _ in range(3)] == [200] * 3


@pytest.fixture
def tls(tmp_path):
    """Who signs, and files of a server that wants no certificate of its clients."""
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("server")
    return authority, {"tls_certificate_file": str(issued.certificate), "tls_key_file": str(issued.key)}


def test_tls_is_served_with_the_certificate(tls):
    """HTTPS with our own certificate; the addresses say so; plain HTTP gets no answer."""
    authority, files = tls
    with serving(**files) as address:
        where = addresses(address, is_tls=True)
        assert httpx.get(f"{where['api']}/health", verify=authority.client()).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{address[1]}/health")


def test_with_an_authority_of_clients_nobody_is_answered_without_a_certificate_of_it(tls):
    """Not even who asks for health: the handshake fails before anything is asked."""
    authority, files = tls
    with serving(**files, tls_client_ca_file=str(authority.certificate)) as address:
        url = f"https://127.0.0.1:{address[1]}/health"
        known = authority.client(authority.issue("operator"))
        assert httpx.get(url, verify=known, timeout=30).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(url, verify=authority.client(), timeout=30)


def test_a_new_certificate_is_served_without_a_restart(tls):
    """Whoever trusts only who signed the new one is answered once it is there."""
    _, files = tls
    other = Authority(Path(files["tls_key_file"]).parent / "other")
    issued = other.issue("server")
    with serving(**files) as address:
        url = f"https://127.0.0.1:{address[1]}/health"
        with pytest.raises(httpx.HTTPError):
            httpx.get(url, verify=other.client(), timeout=30)
        shutil.copy(issued.certificate, files["tls_certificate_file"])
        shutil.copy(issued.key, files["tls_key_file"])

        assert httpx.get(url, verify=other.client(), timeout=30).status_code == 200


@pytest.mark.parametrize(
    "files",
    [
        {"tls_key_file": "k"},
        {"tls_client_ca_file": "ca"},
        {"tls_key_file": "k", "tls_certificate_file": "c"},
    ],
)
def test_a_certificate_that_cannot_be_used_is_a_problem_of_the_settings(files):
    """Half of it, or none of it."""
    with pytest.raises(BadSettings):
        server_of(create_app(StoredInMemory(), lambda: 0.0), ApiSettings(**files))
