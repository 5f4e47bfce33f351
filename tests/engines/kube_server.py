"""A real kube-apiserver over etcd, for the tests that need one. `make kube-apiserver` builds it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest
import yaml

from tests.ports import free_port

ADMIN = "token-of-the-admin"
START_SECONDS = 120.0
CACHE = Path(os.environ.get("TIERSCOPE_KUBE_CACHE", Path.home() / ".cache" / "tierscope" / "kube"))


def not_there() -> str | None:
    """What a `KubeServer` lacks on this machine."""
    if shutil.which("etcd") is None or not (CACHE / "kube-apiserver").exists():
        return "there is no kube-apiserver; `make kube-apiserver` builds it"
    return None


class KubeServer:
    """An API server with RBAC, tokens by user, and nothing that acts on objects."""

    def __init__(self, users: dict[str, str]) -> None:
        if (missing := not_there()) is not None:
            pytest.skip(missing)
        self.binary, etcd = CACHE / "kube-apiserver", shutil.which("etcd")
        self.folder = Path(tempfile.mkdtemp(prefix="tierscope-kube-"))
        self.port, self.etcd_port, peer = free_port(), free_port(), free_port()
        subprocess.run(
            ["openssl", "genrsa", "-out", self.folder / "sa.key", "2048"], check=True, capture_output=True
        )
        lines = [
            f'{ADMIN},admin,1,"system:masters"',
            *(f"{token},{user},{user}" for token, user in users.items()),
        ]
        (self.folder / "tokens.csv").write_text("\n".join(lines))
        client, peers = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peer}"
        self._etcd = self._spawn(
            "etcd", etcd, "--data-dir", self.folder / "etcd", "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peers,
            "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
            "--unsafe-no-fsync",
        )  # fmt: skip
        self._server: subprocess.Popen | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it is ready."""
        key = self.folder / "sa.key"
        self._server = self._spawn(
            "server", self.binary, f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--cert-dir={self.folder / 'certs'}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            # Nobody's, and never used: it would look for one among routes, and a network may have none.
            "--advertise-address=192.0.2.1",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}", f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount", "--allow-privileged", "--event-ttl=1h",
        )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._server.poll() is not None:
                break
            try:
                if self.ask("GET", "/readyz", raw=True) == b"ok":
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
        raise AssertionError((self.folder / "server.log").read_text()[-3000:])

    def stop(self) -> None:
        """Kill the server, which would wait for every open watch; etcd keeps what it holds."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(60)
            self._server = None

    def compact(self) -> None:
        """Forget every version but the present one, as a server does with those of some minutes ago."""
        status = self._etcd_ask("/v3/kv/range", {"key": base64.b64encode(b"/").decode()})
        revision = status["header"]["revision"]
        self._etcd_ask("/v3/kv/compaction", {"revision": revision, "physical": True})

    def close(self) -> None:
        self.stop()
        self._etcd.terminate()
        self._etcd.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kubeconfig(self, token: str, folder: Path) -> Path:
        """A file by which clients of a token reach the server."""
        path = folder / f"{token}.yaml"
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "certs" / "apiserver.crt")}
        context = {"cluster": "c", "user": "u"}
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "x", "context": context}],
            "users": [{"name": "u", "user": {"token": token}}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(document))
        return path

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str = ADMIN,
        kind: str = "json",
        raw=False,
    ):
        """One request as a user; the answer's JSON."""
        headers = {"Authorization": f"Bearer {token}"}
        if body is not None:
            headers["Content-Type"] = "application/json-patch+json" if kind == "patch" else "application/json"
        content = None if body is None else json.dumps(body)
        answer = httpx.request(
            method, f"{self.url}{path}", headers=headers, content=content, timeout=30, verify=False
        )
        answer.raise_for_status()
        return answer.content if raw else answer.json()

    def apply(self, item: dict) -> dict:
        """Create an object where its kind and namespace say, or put it in the place of the one there."""
        path = path_of(item)
        try:
            return self.ask("POST", path, item)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 409:
                raise AssertionError(error.response.text) from error
        there = self.ask("GET", f"{path}/{item['metadata']['name']}")
        version = {"resourceVersion": there["metadata"]["resourceVersion"]}
        changed = {**item, "metadata": {**item["metadata"], **version}}
        return self.ask("PUT", f"{path}/{item['metadata']['name']}", changed)

    def place(self, item: dict, *, namespace: str, node: str) -> None:
        """Write a pod as a kubelet would: where it runs, its address, and that it runs."""
        metadata = {
            key: value for key, value in item["metadata"].items() if key not in {"uid", "ownerReferences"}
        }
        spec = {**item["spec"], "nodeName": node}
        placed = {"metadata": {**metadata, "namespace": namespace}, "spec": spec}
        self.apply({"apiVersion": "v1", "kind": "Pod", **placed})
        path = f"/api/v1/namespaces/{namespace}/pods/{metadata['name']}"
        there = self.ask("GET", path)
        self.ask("PUT", f"{path}/status", {**there, "status": item["status"]})

    def account(self, token: str, folder: Path) -> str:
        """Make a folder as Kubernetes mounts a service account's."""
        folder.mkdir()
        shutil.copy(self.folder / "certs" / "apiserver.crt", folder / "ca.crt")
        (folder / "token").write_text(token)
        return str(folder)

    def _etcd_ask(self, path: str, body: dict) -> dict:
        return httpx.post(f"http://127.0.0.1:{self.etcd_port}{path}", json=body, timeout=30).json()

    def _spawn(self, name: str, *command: object) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, cwd=self.folder)


PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions", "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings", "StorageClass": "storageclasses", "Node": "nodes",
    "Namespace": "namespaces",
}  # fmt: skip


def path_of(item: dict) -> str:
    """The list an object belongs in."""
    version, kind = item["apiVersion"], item["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in PLURALS:
        return f"{root}/{PLURALS[kind]}"
    plural = {"NetworkPolicy": "networkpolicies"}.get(kind, f"{kind.lower()}s")
    return f"{root}/namespaces/{item['metadata']['namespace']}/{plural}"
