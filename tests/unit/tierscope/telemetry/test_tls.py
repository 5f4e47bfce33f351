"""/metrics over TLS: who is let in, certificates exchanged under a running server, and slow clients."""

from __future__ import annotations

import shutil
import socket
import ssl
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.certificates import Authority
from tierscope.domain.errors import BadSettings
from tierscope.domain.tls_settings import TlsSettings
from tierscope.registry import metrics
from tierscope.registry.types import Sample
from tierscope.telemetry.prometheus import MetricsServer


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Who signs servers' and clients' certificates."""
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Somebody else who signs certificates."""
    return Authority(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture
def tls(authority, tmp_path):
    """Files of a server that wants certificates of its clients, to be exchanged by a test."""
    issued = authority.issue("server")
    shutil.copy(issued.certificate, tmp_path / "tls.crt")
    shutil.copy(issued.key, tmp_path / "tls.key")
    shutil.copy(authority.certificate, tmp_path / "ca.crt")
    return TlsSettings(
        certificate_file=str(tmp_path / "tls.crt"),
        key_file=str(tmp_path / "tls.key"),
        client_ca_file=str(tmp_path / "ca.crt"),
    )


@contextmanager
def serving(tls):
    """A page over TLS; its address."""
    with closing(
        MetricsServer("127.0.0.1", 0, lambda: [Sample(metrics.STORE_BYTES, (), 7)], tls=tls)
    ) as server:
        assert server.url.startswith("https://")
        yield server.url


def shown(url, context):
    """The certificate that a server shows in a handshake."""
    where = urlsplit(url)
    with (
        socket.create_connection((where.hostname, where.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=where.hostname) as connection,
    ):
        return connection.getpeercert(binary_form=True)


def test_a_client_with_a_certificate_gets_the_page(authority, tls):
    """The handshake is a real one."""
    with serving(tls) as url:
        answer = httpx.get(url, verify=authority.client(authority.issue("prometheus")), timeout=30)

    assert answer.status_code == 200
    assert "tierscope_store_bytes 7.0" in answer.text


def test_a_client_without_a_certificate_or_with_anothers_is_refused(authority, other, tls):
    """So is one that speaks no TLS at all."""
    theirs = authority.client(other.issue("stranger"))
    with serving(tls) as url:
        for context in (authority.client(), theirs):
            with pytest.raises(httpx.HTTPError):
                httpx.get(url, verify=context, timeout=30)
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https", "http"), timeout=30)


def test_without_an_authority_every_client_is_answered(authority, tls):
    """TLS alone: the server shows who it is."""
    with serving(replace(tls, client_ca_file=None)) as url:
        assert httpx.get(url, verify=authority.client(), timeout=30).status_code == 200


def test_a_new_certificate_is_shown_at_the_next_handshake(authority, tls):
    """Half-written files leave the one before in use."""
    context = authority.client(authority.issue("prometheus"))
    with serving(tls) as url:
        first = shown(url, context)
        Path(tls.certificate_file).write_text("-----BEGIN CERTIFICATE-----\n")
        assert shown(url, context) == first
        issued = authority.issue("next")
        shutil.copy(issued.certificate, tls.certificate_file)
        shutil.copy(issued.key, tls.key_file)

        assert shown(url, context) == ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())


def test_a_new_authority_lets_in_its_own_clients_and_no_others(authority, other, tls):
    """Without a restart."""
    ours, theirs = (authority.client(one.issue("client")) for one in (authority, other))
    with serving(tls) as url:
        assert httpx.get(url, verify=ours, timeout=30).status_code == 200
        shutil.copy(other.certificate, tls.client_ca_file)

        assert httpx.get(url, verify=theirs, timeout=30).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(url, verify=ours, timeout=30)


def test_who_does_not_shake_hands_holds_up_nobody(authority, tls):
    """A connection that says nothing has a thread of its own."""
    context = authority.client(authority.issue("prometheus"))
    with serving(tls) as url:
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port), timeout=30):
            assert httpx.get(url, verify=context, timeout=30).status_code == 200


def test_files_that_cannot_be_used_are_a_problem_of_the_settings(tls):
    """At the start; the port is then free."""
    with pytest.raises(BadSettings, match="the certificate cannot be used"):
        MetricsServer("127.0.0.1", 0, list, tls=replace(tls, key_file=tls.certificate_file))
