"""Faults of the wiring are told before any traffic is, each with the patch that mends it."""

from __future__ import annotations

import json

import pytest

from tests.kubernetes import Objects
from tierscope.advice.document import FindingKind
from tierscope.advice.patches import apply_size
from tierscope.advice.wiring_findings import wiring_findings
from tierscope.domain.deployment import Deployment
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB


@pytest.fixture
def objects() -> Objects:
    return Objects()


def found(deployment: Deployment) -> dict[FindingKind, object]:
    return {finding.kind: finding for finding in wiring_findings(deployment)}


def test_a_pool_that_keeps_all_is_told_before_it_is_full(objects):
    """The one fault of the example: nothing there removes old chunks."""
    told = found(objects.read())

    assert set(told) == {FindingKind.L2_NEVER_EVICTS}
    assert told[FindingKind.L2_NEVER_EVICTS].severity is Severity.WARNING


def test_a_pool_that_removes_old_chunks_is_well(objects):
    """An age and the action to delete."""
    toml = '[worker]\ndata_dir = ["[SSD:100GB]/data"]\n[client]\nttl_action = "delete"\nttl_ms = "2d"\n'
    objects.named("ConfigMap", "curvine-config")["data"] = {"c.toml": toml}

    assert not found(objects.read())


def test_seeds_that_differ_are_mended_by_a_variable(objects):
    """The patch replaces the variable where it stands, or adds it where it does not."""
    told = found(objects.say(PYTHONHASHSEED=None).read())[FindingKind.HASH_SEED_MISMATCH]

    assert told.severity is Severity.CRITICAL
    assert told.apply[0].document == [
        {
            "op": "add",
            "path": "/spec/worker/environmentVariables/-",
            "value": {"name": "PYTHONHASHSEED", "value": "0"},
        }
    ]


def test_kvaware_on_the_chat_path_is_blind(objects):
    """The chat template is not applied before the look-up, so nothing is ever found."""
    objects.spec["intelligentRoutingSpec"]["routingStrategy"] = "kvaware"
    told = found(objects.read())[FindingKind.KVAWARE_BLIND]
    path = "/spec/intelligentRoutingSpec/routingStrategy"

    assert told.apply[0].document == [
        {"op": "test", "path": path, "value": "kvaware"},
        {"op": "replace", "path": path, "value": "prefixaware"},
    ]


@pytest.mark.parametrize("path", ["completions", "/v1/completions"])
def test_kvaware_on_the_completions_path_sees(objects, path):
    """There the prompt is what is looked up."""
    objects.spec["intelligentRoutingSpec"]["routingStrategy"] = "kvaware"
    objects.spec["invocationEndpoint"] = path

    assert FindingKind.KVAWARE_BLIND not in found(objects.read())


def test_an_l2_without_an_address_is_told(objects):
    """A re-render by the operator drops what was patched in by hand."""
    assert FindingKind.L2_NOT_WIRED in found(objects.say(LMCACHE_REMOTE_URL=None).read())


def test_replicas_without_a_router_and_with_two_are_told(objects):
    """Nothing routes by prompt; or two things would."""
    objects.spec["inferenceGateway"] = {"enabled": True}
    assert FindingKind.ROUTING_CONFLICT in found(objects.read())

    objects.spec["inferenceGateway"] = objects.spec["intelligentRoutingSpec"] = None
    assert FindingKind.ROUTING_ABSENT in found(objects.read())


def test_an_l1_beyond_its_node_is_told_by_rank_replica_and_node(objects):
    """640 GiB a rank at eight ranks on a node of 5,254 GiB: every figure is said, and the room there is."""
    objects.say("-tp", "8", LMCACHE_MAX_LOCAL_CPU_SIZE="640")
    for name in ("node-a", "node-b"):
        objects.named("Node", name)["status"]["allocatable"]["memory"] = "5254Gi"
    objects.named("Pod", "agent")["spec"]["containers"][0]["resources"]["requests"]["memory"] = "133Gi"
    told = found(objects.read())[FindingKind.L1_OVERCOMMITTED]

    assert "640.0 GiB for each of 8 ranks, 5.0 TiB a replica" in told.evidence
    assert told.severity is Severity.CRITICAL


def test_a_new_size_of_l1_is_one_patch_with_its_memory(objects):
    """The variable where it stands, tested first, and requests and limits in the same edit."""
    [step] = apply_size(Tier.L1, objects.read(), 16 * GIB, 24 * GIB)
    entry = {"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "24"}

    assert step.document == [
        {"op": "test", "path": "/spec/worker/environmentVariables/2/name", "value": entry["name"]},
        {"op": "replace", "path": "/spec/worker/environmentVariables/2", "value": entry},
        {"op": "add", "path": "/spec/worker/resources/requests/memory", "value": "57344Mi"},
        {"op": "add", "path": "/spec/worker/resources/limits/memory", "value": "57344Mi"},
    ]


def test_a_size_for_ranks_is_said_by_rank_replica_and_node(objects):
    """Four ranks are each told a quarter."""
    [step] = apply_size(Tier.L1, objects.say("-tp", "4").read(), 64 * GIB, 120 * GIB)

    assert '"value": "30"' in json.dumps(step.document)
    assert (
        "30.0 GiB for each of 4 ranks, 120.0 GiB a replica, 120.0 GiB on a node of 120.0 GiB with 1"
        in step.what
    )


def test_a_servers_size_is_its_option(objects):
    """The node's server is told once, whatever the ranks."""
    connector = json.dumps({"kv_connector": "LMCacheMPConnector"})
    [step] = apply_size(
        Tier.L1, objects.say("-tp", "4", "--kv-transfer-config", connector).read(), GIB, 30 * GIB
    )

    assert step.document == {"--l1-size-gb": "30"}


def test_a_pools_size_is_spread_over_its_workers_and_directories(objects):
    """Two workers with one directory each: half of it there, named by its path."""
    [step] = apply_size(Tier.L2, objects.read(), 200 * GIB, 300 * GIB)

    assert step.document == {
        "worker": {"replicas": 2, "storage": {"dataDirs": [{"mountPath": "/data/nvme0", "size": "150Gi"}]}}
    }
