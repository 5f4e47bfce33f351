"""The API's server on a real socket: who is let in, TLS, and clients that say nothing."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager

import httpx
import pytest

from api.app import create_app
from tests.exporting import await_true
from tests.stored import StoredInMemory
from tierscope.cli.serve_api import access_of, addresses, is_loopback, server_of
from tierscope.domain.errors import BadSettings
from tierscope.domain.settings import ApiSettings


@contextmanager
def serving(**settings):
    """A server over an empty store; its address."""
    api = ApiSettings(**settings)
    listener = socket.create_server(("127.0.0.1", 0))
    server = server_of(create_app(StoredInMemory(), lambda: 0.0), api)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        await_true(lambda: server.started, "it serves")
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


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


def test_tls_is_served_with_the_certificate(tmp_path):
    """HTTPS with our own certificate; the addresses say so; plain HTTP gets no answer."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with serving(tls_certificate_file=str(certificate), tls_key_file=str(key)) as address:
        where = addresses(address, is_tls=True)
        context = ssl.create_default_context(cafile=certificate)
        assert httpx.get(f"{where['api']}/health", verify=context).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{address[1]}/health")


@pytest.mark.parametrize("files", [{"tls_key_file": "k"}, {"tls_key_file": "k", "tls_certificate_file": "c"}])
def test_a_certificate_that_cannot_be_used_is_a_problem_of_the_settings(files):
    """Half of it, or none of it."""
    with pytest.raises(BadSettings):
        server_of(create_app(StoredInMemory(), lambda: 0.0), ApiSettings(**files))
