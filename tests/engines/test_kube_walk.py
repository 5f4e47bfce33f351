"""From the chart's settings to a recommendation: real processes and kube-apiserver, the testbed's engines."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
import yaml

from tests.engines.kube_server import KubeServer
from tests.exporting import Scrape, await_true
from tests.kubernetes import definitions
from tests.manifests import by_helm, settings_texts
from tests.node_pods import pod, replica_pod
from tests.ports import free_port
from tierscope.cli.processes import Child
from tierscope.registry import metrics
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

ACCOUNT = "system:serviceaccount:tierscope:"
EXPORTER, COLLECTOR, ADVISOR = "token-of-the-exporter", "token-of-the-collector", "token-of-the-advisor"
NODE = "node-a"


@pytest.fixture(scope="module")
def opened():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def cluster(opened):
    """A server with everything that the chart installs, but for kinds that it does not know."""
    users = {EXPORTER: f"{ACCOUNT}tierscope-exporter", COLLECTOR: f"{ACCOUNT}tierscope-collector"}
    found = KubeServer(users | {ADVISOR: "advisor"})
    opened.callback(found.close)
    for name in ("inference", "tierscope"):
        found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for item in [*definitions(), *by_helm("plain")]:
        if item["kind"] in {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "RoleBinding"}:
            found.apply(item)
    group = "rbac.authorization.k8s.io"
    reader = {"apiGroup": group, "kind": "ClusterRole", "name": "tierscope-reader"}
    found.apply(
        {
            "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "readers"},
            "roleRef": reader, "subjects": [{"kind": "User", "name": "advisor", "apiGroup": group}],
        }
    )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def testbed(opened):
    found = Testbed(TestbedConfig(namespace="inference", endpoint="chat", replicas=2, speed=60.0))
    opened.callback(found.stop)
    found.start()
    return found


def place_engines(cluster: KubeServer, testbed: Testbed) -> None:
    """A pod for each replica."""
    settings = testbed.settings()
    for one, cache in zip(settings.engines, settings.lmcache, strict=True):
        cluster.place(replica_pod(one, cache, "chat"), namespace="inference", node=NODE)


@pytest.fixture(scope="module")
def walk(opened, cluster, testbed, tmp_path_factory):
    """Exporter and server with the chart's settings: only addresses and folders are this machine's."""
    place_engines(cluster, testbed)
    folder = tmp_path_factory.mktemp("walk")
    (folder / "hash-key").write_bytes(b"k" * 32)
    [text] = settings_texts(by_helm("plain"))
    settings = yaml.safe_load(text)
    exporter, collector, api = settings["exporter"], settings["collector"], settings["api"]
    feed, replay = free_port(), free_port()
    exporter |= {
        "listen_port": 0, "hash_key_file": str(folder / "hash-key"), "poll_seconds": 1.0,
        "feed_endpoint": f"tcp://0.0.0.0:{feed}", "feed_replay_endpoint": f"tcp://0.0.0.0:{replay}",
    }  # fmt: skip
    exporter["pods"] |= {
        "node": NODE, "api_url": cluster.url, "find_seconds": 1.0,
        "service_account_folder": cluster.account(EXPORTER, folder / "account"),
    }  # fmt: skip
    collector |= {
        "store_path": str(folder / "store.duckdb"), "listen_port": 0, "advise_seconds": 3.0,
        "deployments": [json.loads(json.dumps(deployment_of(testbed)))],
    }  # fmt: skip
    collector["kubernetes"] |= {"kubeconfig": str(cluster.kubeconfig(COLLECTOR, folder))}
    collector["kubernetes"]["exporters"] |= {
        "feed_port": feed, "feed_replay_port": replay, "find_seconds": 1.0
    }  # fmt: skip
    api |= {"listen_port": 0, "listen_host": "127.0.0.1"}
    path = folder / "tierscope.yaml"
    path.write_text(yaml.safe_dump(settings))
    one = Child(["export", "--config", str(path)], ready_seconds=120)
    opened.callback(one.stop)
    labels = {"app.kubernetes.io/name": "tierscope", "app.kubernetes.io/component": "exporter"}
    exporter_pod = pod(
        "tierscope-exporter-x",
        {"name": "exporter", "image": "tierscope:0.1.0"},
        ip="127.0.0.1",
        labels=labels,
    )
    cluster.place(exporter_pod, namespace="tierscope", node=NODE)
    other = Child(["serve", "--config", str(path)], ready_seconds=120)
    opened.callback(other.stop)
    return path, one.addresses, other.addresses


def deployment_of(testbed: Testbed) -> dict:
    """The endpoint as the settings of a cluster without custom resources list it."""
    found = testbed.deployment()
    tiers = [{"tier": one.tier.value, "capacity_bytes": one.capacity_bytes} for one in found.tiers]
    return {
        "namespace": found.namespace, "endpoint": found.endpoint, "model": found.model,
        "replicas": found.replicas, "routing": found.routing.value, "tiers": tiers,
    }  # fmt: skip


def asked(api: dict, token: str) -> httpx.Response:
    """What the API answers to the bearer of a token who asks for advice."""
    url = f"{api['api']}/v1/recommendations/inference/chat"
    return httpx.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def test_the_walk_ends_at_a_recommendation(walk, testbed):
    """Pods and feed are found, engines are read, the store fills, and whoever may ask is advised."""
    _, exporter, api = walk
    await_true(
        lambda: Scrape(exporter["metrics_url"]).split(metrics.REQUEST_TOKENS).prompt > 0,
        "requests of the engines that were found are on the exporter's page",
    )

    def document():
        answer = asked(api, ADVISOR)
        return None if answer.status_code in {404, 503} else answer.raise_for_status().json()

    await_true(lambda: (document() or {}).get("evidence", {}).get("requests"), "advice rests on requests")
    assert document()["status"] in {"recommend", "no_change", "insufficient_evidence"}


def test_nobody_else_is_advised(walk):
    """A token that Kubernetes does not know, or whose bearer has no role, gets nothing."""
    _, _, api = walk
    for token in ("nobody", EXPORTER):
        assert asked(api, token).status_code in {401, 403}


def test_doctor_has_nothing_critical_to_say_of_the_node(walk):
    """Pods, connectors, pages, streams, the Kubernetes API: all there."""
    path, _, _ = walk

    def checks():
        done = subprocess.run(
            [sys.executable, "-m", "tierscope.cli", "doctor", "--config", str(path), "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout)["checks"]
        assert found
        return found

    def settled():
        return [check for check in checks() if check["status"] == "critical"] == []

    await_true(settled, "streams have connected and nothing is critical")
    won = [check["says"] for check in checks() if check["source"].endswith("connector")]
    assert won == ["ObservingLMCacheMPConnector won"] * 2
