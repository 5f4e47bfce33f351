"""The reference deployment, as far as it can be tried without a cluster: schemas, merges, our readers."""

from __future__ import annotations

import copy
import json
import re

import jsonschema
import kubernetes_validate
import pytest
import yaml

from collectors.kube.assemble import deployments
from collectors.kube.state import cluster_of
from exporters.pods.found import found_pods
from exporters.pods.objects import read_pods
from tests.kubernetes import FOLDER, Objects
from tests.manifests import CHART, ROOT, objects, run, settings_texts, tool
from tierscope.advice.wiring_findings import wiring_findings
from tierscope.cli.settings_file import load_settings
from tierscope.domain.discovery import PodDiscovery

REFERENCE = ROOT / "deploy" / "reference"
VERSIONS = json.loads((ROOT / "deploy/versions.json").read_text("utf-8"))
L2 = "fs://localhost:0/mnt/curvine/l2cache/"


def documents(name: str) -> list[dict]:
    return objects((REFERENCE / name).read_text("utf-8"))


def endpoint() -> dict:
    [found] = documents("07-endpoint.yaml")
    return found


def rendered() -> dict:
    """The endpoint's Deployment as an operator would render it: its own L2, no volume, the arguments."""
    deployment = copy.deepcopy(Objects().named("Deployment", "support-chat"))
    pod, worker = deployment["spec"]["template"]["spec"], endpoint()["spec"]["worker"]
    managed = {"name": "LMCACHE_REMOTE_URL", "value": "sagemaker-hyperpod://$(NODE_IP):9200"}
    pod["volumes"] = []
    pod["containers"][1] |= {
        "args": worker["args"], "env": [*worker["environmentVariables"], managed], "volumeMounts": [],
    }  # fmt: skip
    return deployment


def policy_patch() -> dict:
    """What the policy merges into a Deployment whose engine's container is `model`."""
    [policy] = documents("06-admission-policy.yaml")
    [rule] = policy["spec"]["rules"]
    [each] = rule["mutate"]["foreach"]
    text = json.dumps(each["patchStrategicMerge"])
    assert "{{ element.name }}" in text
    return json.loads(text.replace("{{ element.name }}", "model"))


@pytest.fixture(scope="module")
def merged(tmp_path_factory) -> dict:
    """The rendered Deployment after the policy: kubectl does the strategic merge."""
    folder = tmp_path_factory.mktemp("policy")
    (folder / "deployment.yaml").write_text(yaml.safe_dump(rendered()))
    (folder / "patch.yaml").write_text(yaml.safe_dump(policy_patch()))
    text = run(
        tool("kubectl"), "patch", "--local", "-f", folder / "deployment.yaml", "--type", "strategic",
        "--patch-file", folder / "patch.yaml", "-o", "json",
    )  # fmt: skip
    return json.loads(text)


@pytest.mark.parametrize("version", VERSIONS["kubernetes"])
def test_every_object_fits_its_schema(version):
    """But for the custom resources, which are listed."""
    for path in sorted(REFERENCE.glob("0*.yaml")):
        if path.name.endswith("values.yaml"):
            continue
        for one in objects(path.read_text("utf-8")):
            if one["kind"] in VERSIONS["kubernetes_without_schema_of"]:
                continue
            kubernetes_validate.validate(one, version, strict=True)


def test_the_endpoint_fits_the_operators_definition():
    """Fields, types and ranges of it."""
    [version] = yaml.safe_load((FOLDER / "crd-inferenceendpointconfig.yaml").read_text("utf-8"))["spec"][
        "versions"
    ]

    jsonschema.validate(endpoint(), version["schema"]["openAPIV3Schema"])


def test_the_policy_puts_back_what_the_operator_drops(merged):
    """The address in place of the operator's own, once; seed, volume, mount; nothing else changes."""
    proxy, model = merged["spec"]["template"]["spec"]["containers"]
    before = rendered()["spec"]["template"]["spec"]["containers"]
    urls = [one["value"] for one in model["env"] if one["name"] == "LMCACHE_REMOTE_URL"]
    seeds = [one["value"] for one in model["env"] if one["name"] == "PYTHONHASHSEED"]

    assert (urls, seeds) == ([L2], ["0"])
    assert model["volumeMounts"] == [{"name": "kv-pool", "mountPath": "/mnt/curvine/l2cache"}]
    assert merged["spec"]["template"]["spec"]["volumes"] == [
        {"name": "kv-pool", "persistentVolumeClaim": {"claimName": "kv-pool"}}
    ]
    assert proxy == before[0]
    assert model["args"] == before[1]["args"]
    assert {one["name"] for one in model["env"]} >= {one["name"] for one in before[1]["env"]}


def test_what_is_deployed_has_none_of_the_faults_we_know(merged):
    """Read back by the collector: a pool that deletes, L2 attached, one seed; no finding."""
    pods = []
    for name in ("support-chat-0", "support-chat-1"):
        pod = copy.deepcopy(Objects().named("Pod", name))
        pod["spec"] = {**merged["spec"]["template"]["spec"], "nodeName": pod["spec"]["nodeName"]}
        pods.append(pod)
    workers = Objects().named("StatefulSet", "curvine-worker")
    values = yaml.safe_load((REFERENCE / "03-curvine-values.yaml").read_text("utf-8"))
    workers["spec"]["replicas"] = values["worker"]["replicas"]
    claims = [*documents("04-storageclass.yaml"), *documents("05-pool-claims.yaml")]
    nodes = [Objects().named("Node", name) for name in ("node-a", "node-b")]
    config = Objects().named("ConfigMap", "curvine-config")
    everything = [endpoint(), merged, *pods, workers, config, *claims, *nodes]
    [found] = deployments(cluster_of(everything, "the reference"))

    assert found.wiring.l2_url == L2
    assert found.wiring.hash_seeds == ("0",)
    assert (found.wiring.pool.ttl_action, found.wiring.pool.ttl_seconds) == ("delete", 86400.0)
    assert [finding.kind for finding in wiring_findings(found)] == []


def test_every_switch_of_the_endpoint_is_found_on(merged):
    """An exporter of its node reads page, events and records."""
    pod = {
        "metadata": {"uid": "1", "name": "support-chat-0", "namespace": "team-support"},
        "spec": {"containers": merged["spec"]["template"]["spec"]["containers"]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    pods = read_pods(json.dumps({"items": [pod]}).encode(), where="the reference")
    [one] = found_pods(pods, PodDiscovery(pool="kv"))
    [engine] = one.part.engines

    assert None not in {engine.events_endpoint, engine.events_replay_endpoint, engine.hook_endpoint}
    assert one.part.lmcache_in_process[0].urls == ("http://10.0.0.1:7000",)


def test_the_pool_is_told_the_same_by_both_who_write_to_it():
    """The class and the cluster: a file has the TTL of the client that wrote it."""
    values = yaml.safe_load((REFERENCE / "03-curvine-values.yaml").read_text("utf-8"))
    [storage] = documents("04-storageclass.yaml")
    told = values["configOverrides"]["client"]

    assert told == {"ttl_ms": "1d", "ttl_action": "delete"}
    assert storage["parameters"]["client.ttl-ms"] == told["ttl_ms"]
    assert storage["parameters"]["client.ttl-action"] == told["ttl_action"]
    assert not any(value for name, value in values["cluster"].items() if name.startswith("format"))


def test_tierscope_reads_the_settings_it_is_installed_with(tmp_path):
    """The chart with the values of this folder."""
    text = run(
        tool("helm"), "template", "tierscope", CHART, "--namespace", "tierscope", "--values",
        "deploy/helm/values/hyperpod.yaml", "--values", REFERENCE / "08-tierscope-values.yaml",
    )  # fmt: skip
    texts = settings_texts(objects(text))
    for number, settings in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(settings)
        load_settings(tmp_path / f"{number}.yaml")

    assert len(texts) == 2
    assert "registry.example/tierscope:0.1.0" in text


def test_the_order_names_every_file_once():
    """What is in the folder is in the table, in order."""
    readme = (REFERENCE / "README.md").read_text("utf-8")
    table = [line for line in readme.splitlines() if re.match(r"\| \d", line)]
    named = [name for line in table for name in dict.fromkeys(re.findall(r"\b0\d-[a-z0-9.-]+\w", line))]

    assert named == sorted(path.name for path in REFERENCE.glob("0*"))
    for path in REFERENCE.glob("*.json"):
        assert json.loads(path.read_text("utf-8"))
