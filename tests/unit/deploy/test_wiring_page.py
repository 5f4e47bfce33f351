"""The page on wiring an engine: what it tells to write works, and doctor says what it promises."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
import yaml

from exporters.pods.found import found_pods, server_of
from exporters.pods.objects import read_pods
from tests.kubernetes import FOLDER
from tests.manifests import ROOT
from tests.node_pods import PodApi
from tierscope.cli.doctor_checks import checks
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.settings import CollectorSettings, ExporterSettings, Settings
from tierscope_probe.settings import read_settings

PAGE = (ROOT / "docs/wire-an-engine.md").read_text("utf-8")
RESOURCE, OWN_PODS, PLAIN = (
    yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
)


def rendered(args, env=(), *, name="support-chat-0", ip="127.0.0.1", command=(), gpu=True) -> dict:
    """A pod as an operator renders a resource: its arguments and variables, as they stand there."""
    container = {"name": "model", "image": "registry.example/x", "command": list(command), "args": list(args)}
    container |= {"env": list(env), "ports": [{"containerPort": 8000}]}
    if gpu:
        container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    owner = {"kind": "StatefulSet", "name": "support-chat", "controller": True}
    metadata = {"uid": name, "name": name, "namespace": "team-support", "ownerReferences": [owner]}
    status = {"phase": "Running", "podIP": ip}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": status}


def found(*pods):
    body = json.dumps({"items": list(pods)}).encode()
    return found_pods(read_pods(body, where="the page"), PodDiscovery(pool="kv"))


def resource_pod(args=None, env=None) -> dict:
    worker = RESOURCE["spec"]["worker"]
    return rendered(
        worker["args"] if args is None else args, worker["environmentVariables"] if env is None else env
    )


def test_the_resource_fits_the_operators_definition():
    """Names, types, required fields and ranges of the definition; the rest of it is left open."""
    definition = yaml.safe_load((FOLDER / "crd-inferenceendpointconfig.yaml").read_text("utf-8"))
    [version] = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]

    jsonschema.validate(RESOURCE, schema)
    broken = {**RESOURCE, "spec": {**RESOURCE["spec"], "replicas": "two"}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_every_switch_of_the_resource_is_found_on():
    """Events, the engine hook, the storage hook, and LMCache's own pages."""
    [one] = found(resource_pod())
    [engine], [inside] = one.part.engines, one.part.lmcache_in_process

    assert one.engine.connector_name == "ObservingLMCacheConnectorV1"
    assert (engine.endpoint, engine.lmcache) == ("support-chat", inside.name)
    assert None not in {engine.events_endpoint, engine.events_replay_endpoint}
    assert None not in {engine.hook_endpoint, engine.hook_replay_endpoint}
    assert inside.storage_endpoints == ("tcp://127.0.0.1:5777",)
    assert inside.urls == ("http://127.0.0.1:7000",)
    assert inside.l1_bytes == 16 * 2**30


def test_the_probe_takes_the_settings_of_the_resource():
    """What the exporter expects is where the probe binds, and nothing is misunderstood."""
    variables = {one["name"]: one["value"] for one in RESOURCE["spec"]["worker"]["environmentVariables"]}
    [one] = found(resource_pod())
    settings = read_settings(one.engine.connector.get("kv_connector_extra_config", {}), variables)

    assert settings.enabled
    assert settings.problems == ()
    assert settings.endpoint.rpartition(":")[2] == one.part.engines[0].hook_endpoint.rpartition(":")[2]


def test_an_engine_and_its_server_find_each_other():
    """In pods of their own, on one node."""
    chat = rendered(OWN_PODS["engine"], ip="10.0.0.1")
    cache = rendered([], name="cache-0", ip="10.0.0.2", command=OWN_PODS["server"], gpu=False)
    pods = found(chat, cache)
    server, engine = sorted(pods, key=lambda one: one.engine is not None)

    assert engine.engine.loads_from_server
    assert server_of(engine, pods) == "team-support/cache-0"
    assert server.part.lmcache[0].records_endpoint == "tcp://10.0.0.2:5767"
    assert server.part.lmcache[0].url == "http://10.0.0.2:8080"


def doctor(pod, tmp_path):
    with PodApi() as api:
        api.pods = [pod]
        (tmp_path / "token").write_text(api.token)
        pods = PodDiscovery(node="node-a", api_url=api.url, service_account_folder=str(tmp_path))
        settings = Settings(
            exporter=ExporterSettings(pods=pods), collector=CollectorSettings(store_path=str(tmp_path / "s"))
        )
        return {check.source: check for check in checks(settings, now_unix_seconds=0.0)}


def test_doctor_says_what_an_engine_without_the_image_lacks(tmp_path):
    """Word for word as the page has it."""
    told = doctor(resource_pod(args=PLAIN["args"], env=[]), tmp_path)
    [promised] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    lines = [line.strip() for line in promised.splitlines()]

    for source, says in zip(lines[::2], lines[1::2], strict=True):
        assert told[source].says == says
        assert "docs/wire-an-engine.md" in told[source].fix
    assert told["pod team-support/support-chat-0, connector"].says == "LMCacheConnectorV1 won"


def test_doctor_says_which_connector_won(tmp_path):
    """As where an operator appends its own to yours."""
    own = ["--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}']
    pod = resource_pod(args=[*RESOURCE["spec"]["worker"]["args"], *own])
    check = doctor(pod, tmp_path)["pod team-support/support-chat-0, connector"]

    assert check.severity == "warning"
    assert check.says == "--kv-transfer-config is given 2 times; the last one, LMCacheConnectorV1, won"


@pytest.mark.parametrize(
    ("pod", "source", "says"),
    [
        (rendered(["nginx"], gpu=False), "pods", "no pod of this node has an engine or a cache server"),
        (
            rendered(OWN_PODS["engine"]),
            "pod team-support/support-chat-0, connector",
            "ObservingLMCacheMPConnector won, and which LMCache server it loads from cannot be told",
        ),
        (
            rendered(["--model", "m"], [{"name": "LMCACHE_CHUNK_SIZE", "value": "256"}]),
            "pod team-support/support-chat-0, connector",
            "there are LMCACHE_ variables and no --kv-transfer-config: whether LMCache runs is not told here",
        ),
    ],
)
def test_doctor_names_what_cannot_be_told(pod, source, says, tmp_path):
    """Instead of guessing it."""
    assert doctor(pod, tmp_path)[source].says == says


def test_the_ports_of_the_page_are_those_that_are_read():
    """The table is what an exporter connects to by default."""
    ports = {int(port) for row in re.findall(r"^\| ([\d, ]+)", PAGE, re.MULTILINE) for port in row.split(",")}

    assert ports == {8000, 5557, 5558, 5757, 5857, 5767, 5867, 5777, 5877, 6999, 8080}
