"""What is installed, applied to a real kube-apiserver; and an exporter that lists its node's pods there."""

from __future__ import annotations

import shutil

import pytest
import yaml

from exporters.pods.fetch import PodLister
from tests.engines.kube_server import KubeServer, path_of
from tests.exporting import await_true
from tests.manifests import OVERLAYS, by_kustomize
from tests.node_pods import engine, pod
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import SourceUnreadable

EXPORTER = "system:serviceaccount:tierscope:tierscope-exporter"
TOKEN = "token-of-the-exporter"
STRANGER = "token-of-a-stranger"
NEWER = {"PodDisruptionBudget"}
"""Kinds whose version this server, 1.20, does not have yet (policy/v1 is of 1.21)."""
CUSTOM = {"PodMonitor", "PrometheusRule"}
"""Kinds whose definitions are the Prometheus Operator's."""


@pytest.fixture(scope="module")
def server():
    server = KubeServer({TOKEN: EXPORTER, STRANGER: "stranger"})
    try:
        for name in ("team-support", "curvine", "inference", "tierscope"):
            server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_server_takes_every_object(server, overlay):
    """All but the kinds that are named above; they go again, so that the next overlay's are new."""
    wanted = [one for one in by_kustomize(overlay) if one["kind"] not in NEWER | CUSTOM | {"Namespace"}]
    places = []
    for one in wanted:
        placed = {**one, "metadata": {"namespace": "tierscope", **one["metadata"]}}
        server.apply(placed)
        places.append(f"{path_of(placed)}/{placed['metadata']['name']}")

    taken = [server.ask("GET", place)["metadata"]["name"] for place in places]
    for place in places:
        server.ask("DELETE", place)
    assert taken == [one["metadata"]["name"] for one in wanted]


def test_an_exporter_lists_its_nodes_pods_with_the_rights_of_its_role(server, repository, tmp_path):
    """The role is enough to list, and whoever has not got it is told which to apply."""
    for item in yaml.safe_load_all((repository / "deploy/kubernetes/rbac-exporter.yaml").read_text("utf-8")):
        server.apply(item)
    for name, node in (("chat-1", "node-a"), ("chat-2", "node-b")):
        one = pod(name, engine())
        del one["metadata"]["uid"], one["metadata"]["ownerReferences"]
        one["metadata"]["namespace"] = "inference"
        one["spec"] = {"nodeName": node, **one["spec"]}
        server.apply({"apiVersion": "v1", "kind": "Pod", **one})
    shutil.copy(server.folder / "certs" / "apiserver.crt", tmp_path / "ca.crt")
    discovery = PodDiscovery(node="node-a", api_url=server.url, service_account_folder=str(tmp_path))
    lister = PodLister(discovery, 10.0)

    def names(token):
        (tmp_path / "token").write_text(token)
        return [one.metadata.name for one in lister.list_pods()]

    def may_list():
        try:
            return names(TOKEN)
        except SourceUnreadable:
            return None

    try:
        await_true(may_list, "the role is in force")
        assert names(TOKEN) == ["chat-1"]
        with pytest.raises(SourceUnreadable, match="403"):
            names(STRANGER)
    finally:
        lister.close()
