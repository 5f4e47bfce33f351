"""Every patch that the scenarios' advice has, taken by a real kube-apiserver in a dry run."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator

import pytest

from collectors.kube.kinds import ENDPOINT, GATEWAY
from tests.engines.kube_server import KubeServer
from tests.engines.test_kube import client_of, is_served
from tests.exporting import await_true
from tests.kubernetes import Objects, definitions
from tests.scenarios import test_routing as routed
from tests.scenarios import test_scenarios as sized
from tierscope.advice.document import Apply, ApplyFormat, Recommendation
from tierscope.advice.resource import STRATEGY_PATH, strategy_patch
from tierscope.advice.routing.replica_count import REPLICAS_PATH
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.errors import SourceUnreadable

ADMIN = "token-of-the-admin"
STRATEGIES = (
    RoutingPolicy.ROUNDROBIN, RoutingPolicy.SESSION, RoutingPolicy.PREFIXAWARE, RoutingPolicy.KVAWARE,
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    server = KubeServer({})
    try:
        for item in definitions():
            server.apply(item)
        for kind in (ENDPOINT, GATEWAY):
            await_true(lambda kind=kind: is_served(server, kind), f"{kind.plural} are served")
        yield server
    finally:
        server.close()


def resource_of(deployment: Deployment) -> dict:
    """The resource that a deployment's wiring was read from."""
    found = copy.deepcopy(Objects().named("InferenceEndpointConfig", "support-chat"))
    spec, wiring = found["spec"], deployment.wiring
    found["metadata"] = {"name": deployment.endpoint, "namespace": deployment.namespace}
    spec["replicas"] = deployment.replicas
    spec.pop("intelligentRoutingSpec", None)
    if deployment.routing in STRATEGIES:
        strategy = {"enabled": True, "routingStrategy": deployment.routing.value}
        spec["intelligentRoutingSpec"] = strategy
    worker = spec["worker"]
    worker.pop("args", None)
    worker.pop("environmentVariables", None)
    if wiring is not None:
        if wiring.engine_args:
            worker["args"] = list(wiring.engine_args)
        if wiring.environment:
            worker["environmentVariables"] = [{"name": name, "value": "0"} for name in wiring.environment]
        worker["resources"] = {part: {"memory": "32Gi"} for part in wiring.resource_parts}
    return found


def gateway_of(deployment: Deployment) -> dict:
    """The gateway whose scheduler's place the wiring names."""
    gateway = deployment.wiring.gateway
    weights = {one.scorer: one.weight for one in gateway.weights}
    schedulers = [{"name": "other"}] * gateway.position + [{"name": "ours", "weights": weights}]
    return {
        "apiVersion": f"{GATEWAY.group}/{GATEWAY.version}", "kind": GATEWAY.name,
        "metadata": {"name": gateway.name, "namespace": gateway.namespace},
        "spec": {"schedulers": schedulers},
    }  # fmt: skip


def documents() -> Iterator[tuple[str, Deployment, Recommendation]]:
    for name, scenario in sized.BY_NAME.items():
        yield name, scenario.deployment(), sized.advised_of(name)
    for name, case in routed.BY_NAME.items():
        yield name, case.deployment(), routed.advised(name)


def steps_of(document: Recommendation) -> list[Apply]:
    return [step for part in (*document.changes, *document.findings) for step in part.apply]


def namespaced(server: KubeServer, item: dict) -> str:
    """Write an object, its namespace first; its path."""
    name = item["metadata"]["namespace"]
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    server.apply(item)
    kind = GATEWAY if item["kind"] == GATEWAY.name else ENDPOINT
    return f"{kind.path(name)}/{item['metadata']['name']}"


def test_every_patch_of_every_scenario_passes_a_dry_run(server, tmp_path):
    """Sizes, engine arguments, strategies, weights, replicas, findings' repairs, and a second endpoint."""
    taken: Counter[str] = Counter()
    with client_of(server, ADMIN, tmp_path) as api:
        for name, deployment, document in documents():
            path = None
            for step in steps_of(document):
                match step.format:
                    case ApplyFormat.JSON_PATCH:
                        path = path or namespaced(server, resource_of(deployment))
                        before = api.get(path)
                        answer = api.patch(path, step.document, dry_run=True)
                        assert answer["spec"] != before["spec"], (name, step)
                        assert (
                            api.get(path)["metadata"]["resourceVersion"]
                            == (before["metadata"]["resourceVersion"])
                        )
                    case ApplyFormat.GATEWAY_PATCH:
                        at = namespaced(server, gateway_of(deployment))
                        answer = api.patch(at, step.document, dry_run=True)
                        assert answer["spec"]["schedulers"][-1]["weights"], (name, step)
                    case ApplyFormat.COPY_PATCH:
                        [operation] = step.document
                        another = resource_of(deployment)
                        another["metadata"]["name"] += "-routed"
                        another["spec"][operation["path"].removeprefix("/spec/")] = operation["value"]
                        namespaced(server, resource_of(deployment))
                        into = ENDPOINT.path(deployment.namespace)
                        answer = server.ask("POST", f"{into}?dryRun=All", another)
                        assert answer["spec"]["intelligentRoutingSpec"] == operation["value"]
                    case other:
                        taken[f"by hand: {other.value}"] += 1
                        continue
                taken[step.format.value] += 1

    print(dict(taken))
    assert min(taken[one.value] for one in (ApplyFormat.JSON_PATCH, ApplyFormat.GATEWAY_PATCH)) >= 1
    assert taken[ApplyFormat.COPY_PATCH.value] >= 1
    assert taken[ApplyFormat.JSON_PATCH.value] >= 10


@pytest.mark.parametrize("now", STRATEGIES)
def test_every_strategy_can_be_taken_for_every_other(server, tmp_path, now):
    """Each in a dry run, whichever is in force; a word that is none is refused by name."""
    objects = Objects()
    objects.spec["intelligentRoutingSpec"] = {"enabled": True, "routingStrategy": now.value}
    path = namespaced(server, objects.named("InferenceEndpointConfig", "support-chat"))
    deployment = Deployment("team-support", "support-chat", "m", 2, now)
    with client_of(server, ADMIN, tmp_path) as api:
        for then in STRATEGIES:
            answer = api.patch(path, strategy_patch(deployment, then), dry_run=True)
            assert answer["spec"]["intelligentRoutingSpec"]["routingStrategy"] == then.value
        wrong = [{"op": "replace", "path": STRATEGY_PATH, "value": "fastest"}]
        with pytest.raises(SourceUnreadable, match=r'routingStrategy: Unsupported value: "fastest"'):
            api.patch(path, wrong, dry_run=True)


@pytest.mark.parametrize("now", STRATEGIES)
def test_a_patch_for_a_strategy_that_is_not_in_force_any_more_is_refused(server, tmp_path, now):
    """It is its test of what it rests on that fails, not what it would do; nothing is changed."""
    objects = Objects()
    objects.spec["intelligentRoutingSpec"] = {"enabled": True, "routingStrategy": now.value}
    path = namespaced(server, objects.named("InferenceEndpointConfig", "support-chat"))
    stale = [one for one in STRATEGIES if one is not now]
    assert len(stale) == 3
    with client_of(server, ADMIN, tmp_path) as api:
        for before in stale:
            patch = strategy_patch(Deployment("team-support", "support-chat", "m", 2, before), stale[0])
            test, change = patch
            assert test == {"op": "test", "path": STRATEGY_PATH, "value": before.value}
            # The server names no operation: that it takes each but the test says which one it refuses.
            assert api.patch(path, [change], dry_run=True)["spec"] != api.get(path)["spec"]
            for refused in (patch, [test]):
                with pytest.raises(SourceUnreadable, match="answers 422: the server rejected our request"):
                    api.patch(path, refused, dry_run=True)
        assert api.patch(path, [test | {"value": now.value}, change], dry_run=True)
        there = api.get(path)["spec"]["intelligentRoutingSpec"]["routingStrategy"]
    assert there == now.value


def test_a_number_of_replicas_is_taken_and_no_word(server, tmp_path):
    """The server checks the patch against the definition, so that a dry run that passes says something."""
    path = namespaced(server, Objects().named("InferenceEndpointConfig", "support-chat"))
    with client_of(server, ADMIN, tmp_path) as api:
        more = [{"op": "add", "path": REPLICAS_PATH, "value": 5}]
        assert api.patch(path, more, dry_run=True)["spec"]["replicas"] == 5
        with pytest.raises(SourceUnreadable, match=r'spec\.replicas.*must be of type integer: "string"'):
            api.patch(path, [{"op": "add", "path": REPLICAS_PATH, "value": "five"}], dry_run=True)
