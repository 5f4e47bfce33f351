"""Reading and patching through a real kube-apiserver: watches, rights, and patches that it takes."""

from __future__ import annotations

import copy
import time
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
import yaml

from collectors.complaints import Complaints
from collectors.kube.client import Absent, KubeApi, connect
from collectors.kube.kinds import ENDPOINT, GATEWAY, KINDS, POD, Kind
from collectors.kube.reflector import Reflector
from collectors.kube.watcher import KubeWatcher
from tests import workloads as w
from tests.engines.kube_server import KubeServer, path_of
from tests.exporting import await_true
from tests.kubernetes import Objects, definitions
from tierscope.advice.document import Apply, ApplyFormat, Change, ChangeKind, Recommendation
from tierscope.advice.patches import apply_size
from tierscope.advice.predictions import Estimate, HitRatios, Predicted
from tierscope.advice.recommend import recommend
from tierscope.advice.resource import weights_patch
from tierscope.advice.wiring_findings import wiring_findings
from tierscope.cli.apply import carry_out
from tierscope.domain.deployment import Objective
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB

COLLECTOR = "system:serviceaccount:tierscope:tierscope-collector"
TOKEN = "token-of-the-collector"
NOBODY = "token-of-nobody"
APPLIER = "token-of-the-applier"
RBAC = "deploy/kubernetes/rbac.yaml"


@pytest.fixture(scope="module")
def server(repository):
    """A server with the definitions, the roles of the manifest, and the fixture's endpoint."""
    server = KubeServer({TOKEN: COLLECTOR, NOBODY: "nobody", APPLIER: "applier"})
    try:
        for item in definitions():
            server.apply(item)
        for name in ("team-support", "curvine", "tierscope", "inference-gateway"):
            server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for item in yaml.safe_load_all((repository / RBAC).read_text("utf-8")):
            server.apply(item)
        for kind in (ENDPOINT, GATEWAY):
            await_true(lambda kind=kind: is_served(server, kind), f"{kind.plural} are served")
        fill(server, Objects())
        yield server
    finally:
        server.close()


def is_served(server: KubeServer, kind: Kind) -> bool:
    try:
        server.ask("GET", kind.path(None))
    except httpx.HTTPError:  # 404 until the definition is served
        return False
    return True


def fill(server: KubeServer, objects: Objects) -> None:
    """Write every object, and the status of those that have one."""
    for item in objects.all:
        written = copy.deepcopy(item)
        status = written.pop("status", None)
        server.apply(written)
        if status is not None:
            put_status(server, written, status)


def put_status(server: KubeServer, item: dict, status: dict) -> None:
    path = f"{path_of(item)}/{item['metadata']['name']}"
    there = server.ask("GET", path)
    server.ask("PUT", f"{path}/status", {**there, "status": {**there.get("status", {}), **status}})


@contextmanager
def client_of(server: KubeServer, token: str, folder):
    api = connect(str(server.kubeconfig(token, folder)), None)
    try:
        yield api
    finally:
        api.close()


@pytest.fixture
def api(server, tmp_path):
    """The client with the collector's rights."""
    with client_of(server, TOKEN, tmp_path) as api:
        yield api


@contextmanager
def watching(api: KubeApi, **options):
    recorded: list = []
    found = {"shapes": {}, "objective": Objective(), "settle_seconds": 0.1, **options}
    watcher = KubeWatcher(api, (), recorded.append, Complaints(time.monotonic), **found)
    watcher.start()
    try:
        yield watcher, recorded
    finally:
        watcher.stop()
        watcher.join()


def strategy(server: KubeServer, to: str) -> None:
    path = f"{ENDPOINT.path('team-support')}/support-chat"
    operation = {"op": "replace", "path": "/spec/intelligentRoutingSpec/routingStrategy", "value": to}
    server.ask("PATCH", path, [operation], kind="patch")


def test_the_deployment_is_the_one_of_the_file(api):
    """What the watches put together from a real server is what the files give."""
    with watching(api) as (_, recorded):
        await_true(lambda: recorded, "it is recorded")

    assert recorded == [Objects().read()]


def test_a_change_is_seen_across_a_restart_of_the_server(server, api):
    """The server goes away and comes back; a change after that is recorded, and nothing that is no change."""
    with watching(api) as (watcher, recorded):
        await_true(lambda: recorded, "it is recorded")
        server.stop()
        await_true(lambda: any(not one.is_up for one in watcher._reflectors), "it is missed")
        server.start()
        await_true(lambda: all(one.is_up for one in watcher._reflectors), "it is back")
        strategy(server, "session")
        try:
            await_true(lambda: recorded[-1].routing.value == "session", "the change is seen")
        finally:
            strategy(server, "prefixaware")

    assert [one.routing.value for one in recorded][:2] == ["prefixaware", "session"]


def test_a_version_the_server_forgot_is_listed_anew(server, api):
    """A watch from a version that was compacted away is refused with 410, and the list read again."""
    old = api.list_all(POD.path("team-support")).resource_version
    label = [{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]
    server.ask("PATCH", f"{POD.path('team-support')}/support-chat-0", label, kind="patch")
    server.compact()
    server.stop()
    server.start()  # its memory of late versions is empty now
    reflector = Reflector(api, POD, "team-support", lambda: None, Complaints(time.monotonic))
    reflector._version = old
    reflector.start()
    try:
        await_true(lambda: ("team-support", "support-chat-0") in reflector.objects(), "it is listed anew")
    finally:
        reflector.stop()
        reflector.join()

    assert reflector.objects()["team-support", "support-chat-0"].metadata.labels["seen"] == "yes"


def allowed(api: KubeApi, kind: Kind, verb: str) -> bool:
    try:
        if verb == "list":
            api.list_all(kind.path(None))
        else:
            api.watch(kind.path(None), "").close()
    except SourceUnreadable:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_the_manifest_gives_exactly_the_rights_that_are_needed(server, api, repository, kind):
    """With it every kind can be listed and watched; without either verb of a kind, that cannot be done."""
    roles = [item for item in yaml.safe_load_all((repository / RBAC).read_text("utf-8"))
             if item["kind"] == "ClusterRole"]  # fmt: skip
    [(role, rule)] = [
        (role, number)
        for role in roles
        for number, rule in enumerate(role["rules"])
        if kind.plural in rule["resources"] and kind.group in rule["apiGroups"]
    ]
    for verb in ("list", "watch"):
        await_true(lambda verb=verb: allowed(api, kind, verb), f"{verb} is allowed")
        without = copy.deepcopy(role)
        others = copy.deepcopy(role["rules"][rule])
        others["resources"] = [one for one in others["resources"] if one != kind.plural]
        less = {**role["rules"][rule], "resources": [kind.plural],
                "verbs": [one for one in role["rules"][rule]["verbs"] if one != verb]}  # fmt: skip
        without["rules"][rule : rule + 1] = [
            part for part in (others, less) if part["resources"] and part["verbs"]
        ]
        server.apply(without)
        try:
            await_true(lambda verb=verb: not allowed(api, kind, verb), f"{verb} is refused")
        finally:
            server.apply(role)
    assert not any(set(rule["verbs"]) - {"list", "watch"} for role in roles for rule in role["rules"])


def test_without_rights_the_manifest_is_named(server, tmp_path):
    """Somebody else's token is refused, and the message says what to apply."""
    with client_of(server, NOBODY, tmp_path) as api, pytest.raises(SourceUnreadable) as refused:
        api.list_all(POD.path(None))

    assert RBAC in refused.value.fix


def test_a_kind_that_is_not_installed_is_told_apart(server, tmp_path):
    """404 of a whole kind is no other fault."""
    kind = Kind("Nothing", "nothing.example", "v1", "nothings", ENDPOINT.type, "")
    with client_of(server, "token-of-the-admin", tmp_path) as api, pytest.raises(Absent):
        api.list_all(kind.path(None))


def variants() -> dict[str, Objects]:
    """Endpoints that differ in everything a patch depends on."""
    bare = Objects()
    del bare.spec["worker"]["environmentVariables"]
    no_requests = Objects()
    del no_requests.spec["worker"]["resources"]["requests"]
    blind = Objects()
    blind.spec["intelligentRoutingSpec"]["routingStrategy"] = "kvaware"
    return {
        "as it is": Objects(),
        "no variables": bare,
        "no requests": no_requests,
        "four ranks": Objects().say("-tp", "4"),
        "no seed": Objects().say(PYTHONHASHSEED=None),
        "kvaware on chat": blind,
    }


@pytest.mark.parametrize("name", variants())
def test_every_patch_passes_a_dry_run(server, tmp_path, name):
    """Sizes up and down, and the patch of every finding; the object stays as it is."""
    objects = variants()[name]
    path = f"{ENDPOINT.path('team-support')}/support-chat"
    written = server.apply(objects.named("InferenceEndpointConfig", "support-chat"))
    deployment = objects.read()
    sizes = [step for size in (8, 64) for step in apply_size(Tier.L1, deployment, 16 * GIB, size * GIB)]
    mended = [step for finding in wiring_findings(deployment) for step in finding.apply]
    with client_of(server, "token-of-the-admin", tmp_path) as api:
        for step in (*sizes, *mended):
            assert step.format == "json_patch"
            answer = api.patch(path, step.document, dry_run=True)
            assert answer["metadata"]["uid"] == written["metadata"]["uid"]
            for operation in step.document:
                if operation["op"] != "test" and operation["path"].endswith("/memory"):
                    part = operation["path"].split("/")[-2]
                    assert answer["spec"]["worker"]["resources"][part]["memory"] == operation["value"]
        assert api.get(path)["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
        server.apply(Objects().named("InferenceEndpointConfig", "support-chat"))


def test_a_patch_of_what_has_changed_since_is_refused(server, tmp_path):
    """The test in front of it keeps it from replacing another variable."""
    objects = Objects()
    path = f"{ENDPOINT.path('team-support')}/support-chat"
    [step] = apply_size(Tier.L1, objects.read(), 16 * GIB, 24 * GIB)
    objects.spec["worker"]["environmentVariables"].insert(0, {"name": "NEW", "value": "1"})
    server.apply(objects.named("InferenceEndpointConfig", "support-chat"))
    with client_of(server, "token-of-the-admin", tmp_path) as api, pytest.raises(SourceUnreadable):
        api.patch(path, step.document, dry_run=True)
    server.apply(Objects().named("InferenceEndpointConfig", "support-chat"))


@pytest.mark.parametrize("weights", [{"queue": 2, "prefix": 3}, {}])
def test_weights_of_a_gateway_are_patched_where_they_stand(server, tmp_path, weights):
    """The scheduler of the endpoint's model, whether or not it has weights yet."""
    objects = Objects()
    objects.spec["inferenceGateway"] = {"enabled": True, "name": "shared"}
    scheduler = {"name": "chat", "modelName": "support-chat", **({"weights": weights} if weights else {})}
    gateway = {
        "apiVersion": f"{GATEWAY.group}/{GATEWAY.version}", "kind": GATEWAY.name,
        "metadata": {"name": "shared", "namespace": "inference-gateway"}, "spec": {"schedulers": [scheduler]},
    }  # fmt: skip
    objects.all.append(gateway)
    server.apply(gateway)
    operations = weights_patch(objects.read().wiring, {"queue": 4.0})
    with client_of(server, "token-of-the-admin", tmp_path) as api:
        answer = api.patch(f"{GATEWAY.path('inference-gateway')}/shared", operations, dry_run=True)

    assert answer["spec"]["schedulers"][0]["weights"] == {**weights, "queue": 4}


def recommended(*steps: Apply) -> tuple[Recommendation, Change]:
    """Advice of one change of L1 for the fixture's endpoint, with the steps of a real patch unless given."""
    objects = Objects()
    evidence = w.evidence(w.window(w.cycle(4, 20)))
    document = recommend(evidence, objects.read(), now_unix_seconds=w.NOW)
    sure = Estimate(0.5, 0.4, 0.6)
    change = Change(
        id="tier_size:l1",
        kind=ChangeKind.TIER_SIZE,
        target="l1",
        from_=16.0 * GIB,
        to=24.0 * GIB,
        unit="bytes",
        predicted=Predicted(HitRatios(sure, sure, sure, sure), None, None, None),
        why="because",
        risks=(),
        apply=steps or apply_size(Tier.L1, objects.read(), 16 * GIB, 24 * GIB),
        revert_if=(),
    )
    return replace(document, changes=(change,)), change


@pytest.fixture
def applier(server, tmp_path, repository):
    """A client with the rights of the manifest for applying, and no others."""
    [role] = yaml.safe_load_all((repository / "deploy/kubernetes/rbac-apply.yaml").read_text("utf-8"))
    server.apply(role)
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "applier"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "User", "name": "applier", "apiGroup": group}],
    }
    server.apply(binding)
    with client_of(server, APPLIER, tmp_path) as api:
        await_true(lambda: readable(api), "it may read")
        yield api
    server.apply(Objects().named("InferenceEndpointConfig", "support-chat"))


def readable(api: KubeApi) -> bool:
    try:
        api.get(f"{ENDPOINT.path('team-support')}/support-chat")
    except SourceUnreadable:
        return False
    return True


def test_a_dry_run_shows_the_change_and_changes_nothing(server, applier):
    """The diff is the server's own answer."""
    path = f"{ENDPOINT.path('team-support')}/support-chat"
    before = server.ask("GET", path)["metadata"]["resourceVersion"]
    done = carry_out(applier, *recommended(), dry_run=True, now_unix_seconds=w.NOW)

    assert not done["applied"]
    assert "+    value: '24'" in done["diff"]
    assert server.ask("GET", path)["metadata"]["resourceVersion"] == before


def test_an_applied_change_is_told_at_the_resource(server, applier):
    """The patch is in force, and an event says from what to what."""
    done = carry_out(applier, *recommended(), dry_run=False, now_unix_seconds=w.NOW)
    spec = server.ask("GET", f"{ENDPOINT.path('team-support')}/support-chat")["spec"]
    events = server.ask("GET", "/api/v1/namespaces/team-support/events")["items"]

    assert done["applied"]
    assert spec["worker"]["environmentVariables"][2]["value"] == "24"
    assert spec["worker"]["resources"]["limits"]["memory"] == "57344Mi"
    assert [event["reason"] for event in events] == ["TierscopeApplied"]


def test_what_is_partly_done_by_hand_is_not_applied(server, applier):
    """Half a change may be worse than none: its steps are shown, and nothing is patched."""
    by_hand = Apply("Helm values", ApplyFormat.HELM_VALUES, {"worker": {"replicas": 3}})
    [patch] = apply_size(Tier.L1, Objects().read(), 16 * GIB, 24 * GIB)
    done = carry_out(applier, *recommended(patch, by_hand), dry_run=False, now_unix_seconds=w.NOW)

    assert not done["applied"]
    assert done["by_hand"] == ['Helm values {"worker": {"replicas": 3}}']
