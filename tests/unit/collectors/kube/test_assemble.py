"""Deployments put together from objects: sizes in their real units, routing, wiring, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.kube.assemble import deployments
from collectors.kube.files import cluster_from, model_shapes
from tests.kubernetes import FOLDER, Objects
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.errors import BadInput
from tierscope.domain.kv_size import ModelShape
from tierscope.domain.settings import ModelSettings
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.domain.wiring import CacheScope, ResourceKind, ScorerWeight


@pytest.fixture
def objects() -> Objects:
    return Objects()


def test_the_rendered_endpoint_is_read_whole(objects):
    """Replicas, routing, sizes and wiring of one endpoint, each from the object that decides it."""
    found = objects.read()

    assert (found.namespace, found.endpoint, found.model) == ("team-support", "support-chat", "support-chat")
    assert (found.replicas, found.routing, found.tensor_parallel) == (2, RoutingPolicy.PREFIXAWARE, 1)
    assert found.worker_memory_bytes == 48 * GIB
    assert found.tier(Tier.L1).capacity_bytes == 16 * GIB
    assert found.tier(Tier.L2).capacity_bytes == 200 * GIB
    assert found.l2_workers == 2
    assert found.wiring.environment == (
        "PYTHONHASHSEED",
        "LMCACHE_REMOTE_SERDE",
        "LMCACHE_MAX_LOCAL_CPU_SIZE",
    )
    assert found.wiring.l2_url == "fs://localhost:0/mnt/curvine/l2cache/"
    assert found.wiring.hash_seeds == ("0",)
    assert found.wiring.engine_image == "example/vllm-lmcache:pinned"
    assert (found.wiring.chunk_tokens, found.wiring.max_model_len) == (256, 16384)
    assert found.wiring.pool.ttl_action == "none"


def test_a_file_gives_what_the_api_gives(objects):
    """`kubectl get -o yaml` written to files is read to the same deployment."""
    assert deployments(cluster_from([FOLDER / "support-chat.yaml"])) == (objects.read(),)


def test_l1_has_the_room_its_fullest_node_leaves(objects):
    """Allocatable memory less the spare part, the other pods, and the replica beside its L1."""
    limit = objects.read().tier(Tier.L1).limit_bytes

    assert limit == pytest.approx((0.97 * 120 - 2 - (48 - 16)) * GIB)


def test_in_the_engine_every_rank_takes_l1_for_itself(objects):
    """30 GiB at four ranks are 120 GiB a replica."""
    found = objects.say("--tensor-parallel-size", "4", LMCACHE_MAX_LOCAL_CPU_SIZE="30").read()

    assert found.tensor_parallel == 4
    assert found.wiring.l1_scope is CacheScope.RANK
    assert found.tier(Tier.L1).capacity_bytes == 120 * GIB


def test_a_server_of_the_node_takes_l1_once(objects):
    """The same 30 GiB as the option of an LMCache server stay 30 GiB, whatever the ranks."""
    connector = json.dumps({"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"})
    objects.say("-tp", "4", "--kv-transfer-config", connector)
    objects.named("Pod", "agent")["spec"]["containers"] = [
        {"name": "cache", "image": "lmcache/server", "args": ["lmcache", "server", "--l1-size-gb", "30"]}
    ]
    found = objects.read()

    assert found.wiring.l1_scope is CacheScope.NODE
    assert found.tier(Tier.L1).capacity_bytes == 30 * GIB


def test_a_size_that_fills_its_node_is_beyond_its_limit(objects):
    """640 GiB at eight ranks beside 133 GiB of others leave 1 GiB of 5,254: that is no room."""
    objects.say("-tp", "8", LMCACHE_MAX_LOCAL_CPU_SIZE="640")
    for name in ("node-a", "node-b"):
        objects.named("Node", name)["status"]["allocatable"]["memory"] = "5254Gi"
    objects.named("Pod", "agent")["spec"]["containers"][0]["resources"]["requests"]["memory"] = "133Gi"
    l1 = objects.read().tier(Tier.L1)

    assert l1.capacity_bytes == 5120 * GIB
    assert l1.limit_bytes < l1.capacity_bytes


@pytest.mark.parametrize(
    ("variables", "file", "gibibytes"),
    [
        ({}, "max_local_cpu_size: 7.5", 7.5),
        ({"LMCACHE_MAX_LOCAL_CPU_SIZE": "3"}, "max_local_cpu_size: 7.5", 3.0),
        ({}, "chunk_size: 64", 5.0),
        ({}, "- not: a mapping", 5.0),
        ({}, "a: [broken", 5.0),
    ],
)
def test_the_caches_file_is_read_and_variables_go_before_it(objects, variables, file, gibibytes):
    """LMCache reads its file, then its variables over it; what neither says has LMCache's default."""
    objects.say(
        **{"LMCACHE_MAX_LOCAL_CPU_SIZE": None, "LMCACHE_CONFIG_FILE": "/etc/lmcache/c.yaml", **variables}
    )
    objects.all.append(
        {
            "kind": "ConfigMap",
            "metadata": {"name": "lm", "namespace": "team-support"},
            "data": {"c.yaml": file},
        }
    )
    for pod in objects.pods():
        pod["spec"]["volumes"].append({"name": "lm", "configMap": {"name": "lm"}})
        pod["spec"]["containers"][1]["volumeMounts"].append({"name": "lm", "mountPath": "/etc/lmcache"})

    assert objects.read().tier(Tier.L1).capacity_bytes == gibibytes * GIB


@pytest.mark.parametrize("off", ["LMCACHE_LOCAL_CPU", "switch"])
def test_an_l1_that_is_off_is_no_tier(objects, off):
    """By the cache's own variable, or by the resource's switch."""
    if off == "switch":
        objects.spec["kvCacheSpec"]["enableL1Cache"] = False
    else:
        objects.say(LMCACHE_LOCAL_CPU="false")

    assert objects.read().tier(Tier.L1) is None


@pytest.mark.parametrize(
    ("routing", "gateway", "policy"),
    [
        ({"enabled": True, "routingStrategy": "kvaware"}, None, RoutingPolicy.KVAWARE),
        ({"enabled": True}, None, RoutingPolicy.PREFIXAWARE),
        ({"enabled": False, "routingStrategy": "session"}, None, RoutingPolicy.NONE),
        (None, None, RoutingPolicy.NONE),
        ({"enabled": True}, {"enabled": True}, RoutingPolicy.GATEWAY),
        ({"enabled": True, "routingStrategy": "later"}, None, RoutingPolicy.UNKNOWN),
    ],
)
def test_routing_is_strategy_gateway_or_neither(objects, routing, gateway, policy):
    """A strategy counts only where its router is switched on, and never beside a gateway."""
    objects.spec["intelligentRoutingSpec"] = routing
    objects.spec["inferenceGateway"] = gateway

    assert objects.read().routing is policy


def test_the_gateways_weights_are_found_for_the_model(objects):
    """The scheduler is the one that serves the endpoint's model; its place is what a patch needs."""
    objects.spec["inferenceGateway"] = {"enabled": True, "name": "shared"}
    schedulers = [
        {"name": "other", "modelName": "other", "weights": {"queue": 9}},
        {"name": "chat", "modelName": "support-chat", "weights": {"queue": 2, "prefix": 3}},
    ]
    metadata = {"name": "shared", "namespace": "inference-gateway"}
    objects.all.append(
        {"kind": "InferenceGatewayConfig", "metadata": metadata, "spec": {"schedulers": schedulers}}
    )
    gateway = objects.read().wiring.gateway

    assert (gateway.namespace, gateway.name, gateway.position) == ("inference-gateway", "shared", 1)
    assert gateway.weights == (ScorerWeight("prefix", 3.0), ScorerWeight("queue", 2.0))


def test_seeds_of_all_pods_are_compared(objects):
    """One pod without a seed is seen, though the resource has one."""
    environment = objects.pods()[1]["spec"]["containers"][1]["env"]
    environment[:] = [one for one in environment if one["name"] != "PYTHONHASHSEED"]

    assert objects.read().wiring.hash_seeds == ("0", "random")


def test_without_an_address_there_is_no_l2(objects):
    """The switch alone stores nothing: pods without LMCACHE_REMOTE_URL have no L2."""
    found = objects.say(LMCACHE_REMOTE_URL=None).read()

    assert found.tier(Tier.L2) is None
    assert found.wiring.l2_is_on is True


def test_the_models_shape_gives_bytes_a_token(objects):
    """Computed for the cache type the engine is told; it stands apart from what was measured."""
    shape = ModelShape(layers=28, kv_heads=4, head_values=128, value_bytes=2.0)
    plain = objects.read(shapes={"support-chat": shape})
    narrow = objects.say("--kv-cache-dtype=fp8").read(shapes={"support-chat": shape})

    assert (plain.bytes_per_token, plain.model_bytes_per_token) == (None, 57344.0)
    assert narrow.model_bytes_per_token == 57344.0 / 2


def test_an_endpoint_nothing_was_rendered_of_is_what_it_asks_for(objects):
    """Before the operator has acted, the resource alone is read."""
    objects.all = [objects.named("InferenceEndpointConfig", "support-chat")]
    found = objects.read()

    assert (found.replicas, found.tier(Tier.L1).capacity_bytes) == (2, 16 * GIB)
    assert found.tier(Tier.L1).limit_bytes is None


def test_a_jumpstart_model_is_an_endpoint(objects):
    """Its variables stand at another place; it has the same switches."""
    spec = {
        "model": {"modelId": "qwen"},
        "server": {"instanceType": "ml.p5.48xlarge"},
        "environmentVariables": [{"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "8"}],
        "kvCacheSpec": {"enableL1Cache": True},
    }
    objects.all = [{"kind": "JumpStartModel", "metadata": {"name": "js", "namespace": "n"}, "spec": spec}]
    found = objects.read()

    assert (found.model, found.wiring.kind) == ("qwen", ResourceKind.JUMPSTART_MODEL)
    assert found.wiring.instance_types == ("ml.p5.48xlarge",)
    assert found.tier(Tier.L1).capacity_bytes == 8 * GIB


def test_pools_are_told_apart_by_the_class_of_the_claim(objects):
    """Of two Curvine clusters the one whose masters the class names is behind the endpoint."""
    other = json.loads(json.dumps(objects.named("StatefulSet", "curvine-worker")))
    other["metadata"]["namespace"], other["spec"]["replicas"] = "elsewhere", 7
    objects.all.append(other)
    by_class = objects.named("StorageClass", "curvine-sc")["parameters"]
    by_class |= {"client.ttl-action": "delete", "client.ttl-ms": "7d"}
    pool = objects.read().wiring.pool

    assert (pool.namespace, pool.workers) == ("curvine", 2)
    assert (pool.ttl_action, pool.ttl_seconds) == ("delete", 7 * 86400)


def test_a_pool_without_a_size_is_no_size(objects):
    """A directory that is the whole disk has no size in the configuration: none is made up."""
    config = objects.named("ConfigMap", "curvine-config")
    config["data"] = {"curvine-cluster.toml": '[worker]\ndata_dir = ["[SSD]/data/nvme0", "[SSD:1TB]/b"]'}
    found = objects.read()

    assert found.wiring.pool.capacity_bytes is None
    assert found.tier(Tier.L2) is None


def test_models_are_read_from_their_own_configuration(tmp_path: Path):
    """A config.json as models ship it; one that does not say enough is refused by name."""
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "torch_dtype": "float16"}
        )
    )
    assert model_shapes([ModelSettings(name="m", config_file=str(path))]) == {"m": ModelShape(2, 4, 16, 2.0)}

    path.write_text("{}")
    with pytest.raises(BadInput, match="does not say how large"):
        model_shapes([ModelSettings(name="m", config_file=str(path))])
