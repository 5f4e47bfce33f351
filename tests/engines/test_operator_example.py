"""The operator example as it is run, with the rights of its manifest, against a real kube-apiserver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from urllib.parse import quote

import pytest
import yaml

from api.app import create_app
from collectors.kube.kinds import ENDPOINT
from tests import workloads as w
from tests.engines.kube_server import KubeServer
from tests.exporting import await_true
from tests.kubernetes import Objects, definitions
from tests.operator_example import FOLDER, policy
from tests.page_server import PageServer
from tests.served import served
from tests.stored import StoredInMemory
from tierscope.advice.document import Change, ChangeKind, RevertIf, Status
from tierscope.advice.patches import apply_size
from tierscope.advice.predictions import Estimate, HitRatios, Predicted
from tierscope.advice.recommend import recommend
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB

WHO = ("team-support", "support-chat")
PATH = f"{ENDPOINT.path(WHO[0])}/{WHO[1]}"
TOKEN = "token-of-the-example"
QUERY = "hits"


def result(value: float) -> bytes:
    return json.dumps({"data": {"result": [{"value": [0, str(value)]}]}}).encode()


def document() -> bytes:
    """Advice of now, with a real patch of L1 and a reason to revert that holds at once."""
    objects, sure = Objects(), Estimate(0.5, 0.4, 0.6)
    advised = recommend(w.evidence(w.window(w.cycle(4, 20))), objects.read(), now_unix_seconds=time.time())
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
        apply=apply_size(Tier.L1, objects.read(), 16 * GIB, 24 * GIB),
        revert_if=(RevertIf("hits stay low", QUERY, "<", 0.4, 0.5),),
    )
    found = replace(advised, status=Status.RECOMMEND, changes=(change,), findings=())
    return json.dumps(found.to_json()).encode()


@pytest.fixture(scope="module")
def server():
    """A server with the definitions, the example's manifest, and the fixture's endpoint."""
    server = KubeServer({TOKEN: "system:serviceaccount:tierscope:tierscope-operator-example"})
    try:
        for item in definitions():
            server.apply(item)
        for name in ("team-support", "tierscope"):
            server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for item in yaml.safe_load_all((FOLDER / "rbac.yaml").read_text("utf-8")):
            server.apply(item)
        await_true(lambda: is_served(server), "endpoints are served")
        yield server
    finally:
        server.close()


def is_served(server: KubeServer) -> bool:
    try:
        server.ask("GET", ENDPOINT.path(None))
    except OSError:
        return False
    return True


@pytest.fixture
def endpoint(server):
    """The endpoint as the fixture has it."""
    item = Objects().named("InferenceEndpointConfig", "support-chat")
    item.pop("status", None)
    return server.apply(item)


@pytest.fixture
def api_url():
    """Tierscope's API with one recommendation."""
    store = StoredInMemory(recommendations={WHO: document()})
    with served(create_app(store, lambda: w.NOW)) as address:
        yield address


@pytest.fixture
def prometheus():
    """What the change's query answers."""
    pages = PageServer({f"/api/v1/query?query={quote(QUERY)}": result(0.9)})
    yield pages
    pages.close()


@pytest.fixture
def example(server, api_url, prometheus, tmp_path):
    """Starts the example with some settings, as its image does; it is stopped in the end."""
    running: list[subprocess.Popen] = []

    def start(**settings: str) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig(TOKEN, tmp_path)),
            "TIERSCOPE_URL": api_url,
            "PROMETHEUS_URL": prometheus.url,
            "POLL_SECONDS": "0.3",
            **settings,
        }
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", "controller.py"]
        with (tmp_path / "example.log").open("ab") as log:
            running.append(subprocess.Popen(command, cwd=FOLDER, env=environment, stdout=log, stderr=log))

    yield start
    for process in running:
        process.terminate()
        process.wait(60)
    sys.stderr.write((tmp_path / "example.log").read_text("utf-8")[-3000:])


def now(server: KubeServer) -> dict:
    return server.ask("GET", PATH)


def annotations(server: KubeServer) -> dict:
    return now(server)["metadata"].get("annotations") or {}


def reasons(server: KubeServer) -> list[str]:
    events = server.ask("GET", f"/api/v1/namespaces/{WHO[0]}/events")["items"]
    return [one["reason"] for one in events if one["involvedObject"]["uid"] == now(server)["metadata"]["uid"]]


def memory(item: dict) -> str:
    return item["spec"]["worker"]["resources"]["requests"]["memory"]


def test_by_default_it_annotates_and_changes_nothing(server, endpoint, example):
    """The advice is on the resource; its spec is the one it was, and nothing keeps it from being deleted."""
    example()
    await_true(lambda: policy.STATUS in annotations(server), "the resource is annotated")
    found = now(server)

    assert annotations(server)[policy.ADVICE] == "l1 from 16.0 GiB to 24.0 GiB"
    assert found["spec"] == endpoint["spec"]
    assert found["metadata"]["generation"] == endpoint["metadata"]["generation"]
    assert not found["metadata"].get("finalizers")


def test_an_allowed_change_is_applied_watched_and_undone(server, endpoint, example, prometheus):
    """The real patch is in force while its promise is kept, and gone once it is broken."""
    example(PATCH_KINDS="tier_size")
    await_true(lambda: policy.APPLIED in annotations(server), "the change is remembered")
    await_true(lambda: "TierscopeApplied" in reasons(server), "the change is told")
    applied = now(server)
    prometheus.pages = {f"/api/v1/query?query={quote(QUERY)}": result(0.1)}
    await_true(lambda: "TierscopeReverted" in reasons(server), "the change is undone")
    await_true(lambda: policy.REVERTED in annotations(server), "that is remembered")
    await_true(lambda: policy.HELD_BACK in annotations(server), "it is not tried again")

    assert memory(applied) != memory(endpoint)
    assert now(server)["spec"] == endpoint["spec"]
    assert reasons(server).count("TierscopeApplied") == 1
