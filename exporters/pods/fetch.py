"""Ask the Kubernetes API for the pods of one node."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from exporters.fetch import Fetcher
from exporters.pods.objects import NodePod, read_pods
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import BadSettings, SourceUnreadable, TierscopeError

NODE_VARIABLE = "NODE_NAME"
ROLE = "deploy/kubernetes/rbac-exporter.yaml"


def node_of(discovery: PodDiscovery, environ: Mapping[str, str] = os.environ) -> str:
    """The node whose pods are looked for; raises `BadSettings` where nobody says."""
    name = discovery.node or environ.get(NODE_VARIABLE)
    if name:
        return name
    raise _problem(
        "nothing says which node this is",
        f"set exporter.pods.node, or {NODE_VARIABLE} from the pod's own spec.nodeName",
    )


class PodLister:
    """Lists the pods of one node, as its service account may.

    The API server answers from its cache (resourceVersion 0), so that many exporters cost it little. Raises
    `BadSettings` where no API can be found.
    """

    def __init__(
        self,
        discovery: PodDiscovery,
        timeout_seconds: float,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._folder = Path(discovery.service_account_folder)
        node = quote(node_of(discovery, environ), safe="")
        self._base = discovery.api_url or _in_cluster(environ)
        query = f"?fieldSelector=spec.nodeName%3D{node}&resourceVersion=0"
        self._paths = [f"/api/v1/namespaces/{quote(name, safe='')}/pods" for name in discovery.namespaces]
        self._paths = [path + query for path in self._paths or ["/api/v1/pods"]]
        self._fetcher = Fetcher(timeout_seconds, verify=_certificates(self._folder / "ca.crt"))

    def list_pods(self) -> Sequence[NodePod]:
        """Every pod of the node; raises `SourceUnreadable`."""
        headers = {"Accept": "application/json"}
        token = self._folder / "token"
        try:
            if token.exists():  # read anew each time: it is renewed within the hour
                headers["Authorization"] = f"Bearer {token.read_text('utf-8').strip()}"
        except (OSError, UnicodeDecodeError) as error:
            raise SourceUnreadable(
                f"the service account's token cannot be read: {getattr(error, 'strerror', None) or error}",
                where=str(token),
                fix="look at the pod's mounted service account; it is read again at the next listing",
            ) from error
        found: list[NodePod] = []
        for path in self._paths:
            where = self._base.rstrip("/") + path
            try:
                body = self._fetcher.get(where, headers)
            except SourceUnreadable as error:
                raise SourceUnreadable(
                    f"the pods of this node cannot be listed: {error.what}",
                    where=where,
                    fix=f"apply {ROLE} and run with its service account; what was found before stays",
                ) from error
            found += read_pods(body, where=where)
        return found

    def close(self) -> None:
        """Free the connections."""
        self._fetcher.close()


def _in_cluster(environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise _problem(
            "the Kubernetes API cannot be found", "run in the cluster, or set exporter.pods.api_url"
        )
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def _certificates(file: Path) -> ssl.SSLContext | bool:
    if not file.exists():
        return True
    try:
        return ssl.create_default_context(cafile=str(file))
    except (OSError, ssl.SSLError) as error:
        raise _problem(
            f"{file} cannot be used: {error}", "check exporter.pods.service_account_folder"
        ) from error


def _problem(what: str, fix: str) -> BadSettings:
    return BadSettings([TierscopeError(what, where="settings, exporter.pods", fix=fix)])
