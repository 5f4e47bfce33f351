"""Certificates for tests, made on the spot: an authority, and those it signs."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.certificate, self._key = folder / "ca.pem", folder / "ca.key"
        self._made("ca", self.certificate, self._key, signer=[])

    def issue(self, name: str) -> Issued:
        """A certificate in files of its own."""
        issued = Issued(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        signer = ["-CA", self.certificate, "-CAkey", self._key]
        self._made(name, issued.certificate, issued.key, signer=signer)
        return issued

    def client(self, issued: Issued | None = None) -> ssl.SSLContext:
        """What a client trusts, and the certificate it shows."""
        context = ssl.create_default_context(cafile=self.certificate)
        if issued is not None:
            context.load_cert_chain(issued.certificate, issued.key)
        return context

    def _made(self, name: str, certificate: Path, key: Path, *, signer: list[object]) -> None:
        asked: list[object] = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]
        asked += [
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            key,
            "-out",
            certificate,
            *signer,
        ]
        if signer:
            asked += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
        subprocess.run(list(map(str, asked)), check=True, capture_output=True)
