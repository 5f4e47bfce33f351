"""Curves, findings, history, configurations and what-if over a reader in memory."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from api.app import create_app
from tests import workloads as w
from tests.asking import Client, assert_problem
from tests.kubernetes import Objects
from tests.stored import StoredInMemory
from tierscope.advice import what_if as asking
from tierscope.advice.recommend import recommend
from tierscope.advice.what_if import Abandoned, what_if
from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.tiers import Tier

ENDPOINT = ("ns", "chat")


@pytest.fixture(scope="module")
def served():
    """A drawn workload, the deployment that served it, and its evidence."""
    window = w.window(w.drawn(40, 1200, np.random.default_rng(5)))
    deployment = w.deployment(8 * 4 * w.CHUNK_BYTES)
    return w.served(window, deployment), deployment


@pytest.fixture
def store(served):
    evidence, deployment = served
    document = recommend(evidence, deployment, now_unix_seconds=w.NOW).to_json()
    older = {**document, "generated_at": "2023-11-14T00:00:00Z", "changes": []}
    wired = replace(Objects().read(), namespace="ns", endpoint="chat")
    return StoredInMemory(
        recommendations={ENDPOINT: json.dumps(document).encode()},
        earlier={ENDPOINT: tuple(json.dumps({**older, "status": f"s{n}"}).encode() for n in range(5))},
        configurations={ENDPOINT: (DeploymentSince(1.0, wired), DeploymentSince(2.0, deployment))},
        evidences={ENDPOINT: evidence},
    )


@pytest.fixture
def client(store):
    return Client(create_app(store, lambda: w.NOW))


def test_curves_are_the_documents(client, store):
    """The same points, with today's and the advised one."""
    document = json.loads(store.recommendations[ENDPOINT])
    answered = client.get("/v1/curves/ns/chat").json()

    assert answered["curves"] == document["curves"]
    assert_problem(client.get("/v1/curves/ns/other"), 404, "no recommendation")


def test_findings_of_all_endpoints_come_gravest_first(client, store):
    """With whose they are; one severity can be asked for."""
    text = {"title": "t", "evidence": "e", "fix": "f", "apply": []}
    kinds = [("low_traffic", "info"), ("l1_overcommitted", "critical"), ("drift", "warning")]
    found = [{"kind": kind, "severity": severity, **text} for kind, severity in kinds]
    document = json.loads(store.recommendations[ENDPOINT])
    store.recommendations[ENDPOINT] = json.dumps({**document, "findings": found}).encode()
    answered = client.get("/v1/findings").json()

    assert [one["finding"]["severity"] for one in answered["findings"]] == ["critical", "warning", "info"]
    assert answered["findings"][0]["endpoint"] == "chat"
    assert len(client.get("/v1/findings?severity=info").json()["findings"]) == 1
    assert_problem(client.get("/v1/findings?severity=bad"), 422, "severity")


@pytest.mark.parametrize(
    ("field", "value"), [("kind", "of_tomorrow"), ("severity", "fatal")], ids=["kind", "severity"]
)
def test_a_finding_of_another_release_is_left_out_and_hides_no_other(client, store, caplog, field, value):
    """It is counted, and the log says once whose it is and what of it is not known."""
    known = {"kind": "drift", "severity": "warning", "title": "t", "evidence": "e", "fix": "f", "apply": []}
    document = json.loads(store.recommendations[ENDPOINT])
    for name, findings in (("chat", [{**known, field: value}, known]), ("rag", [known])):
        store.recommendations["ns", name] = json.dumps({**document, "findings": findings}).encode()
    answered = client.get("/v1/findings").json()
    again = client.get("/v1/findings?severity=warning").json()

    assert [one["endpoint"] for one in answered["findings"]] == ["chat", "rag"]
    assert answered["left_out"] == 1
    assert again == answered
    [said] = [record.getMessage() for record in caplog.records if record.name == "api.advice_routes"]
    assert "findings of ns/chat are left out (1)" in said
    assert f"{field} '{value}' is not known" in said


def test_all_findings_known_are_none_left_out(client, caplog):
    """And nothing is said."""
    assert client.get("/v1/findings").json()["left_out"] == 0
    assert "left out" not in caplog.text


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"curves": {"l9": {}}}, "l9"),
        ({"curves": {"l1": {"points": []}}}, "l1"),
        ({"generated_at": None}, "generated_at"),
    ],
    ids=["tier", "shape", "time"],
)
def test_curves_of_another_release_are_a_problem_with_a_way_on(client, store, changed, what):
    """What, where and how to fix, as for a store that cannot be read; no defect of ours."""
    document = json.loads(store.recommendations[ENDPOINT])
    store.recommendations[ENDPOINT] = json.dumps({**document, **changed}).encode()
    answered = client.get("/v1/curves/ns/chat")

    assert_problem(answered, 503, "another release")
    assert what in answered.json()["what"]
    assert "release" in answered.json()["fix"]


def test_history_comes_in_pages(client):
    """`next` of one answer is `after` of the next, and null after the last."""
    seen, after = [], 0
    while after is not None:
        page = client.get(f"/v1/recommendations/ns/chat/history?limit=2&after={after}").json()
        seen += [one["status"] for one in page["recommendations"]]
        after = page["next"]

    assert seen == ["s0", "s1", "s2", "s3", "s4"]


def test_configurations_are_told_newest_first(client):
    """Whole, how they are wired up included."""
    found = client.get("/v1/deployments/ns/chat").json()["deployments"]

    assert [one["since_unix_seconds"] for one in found] == [2.0, 1.0]
    assert found[1]["deployment"]["wiring"]["pool"]["workers"] == 2


@pytest.mark.parametrize(
    "path",
    [
        "/v1/recommendations",
        "/v1/recommendations/ns/chat/history",
        "/v1/curves/ns/chat",
        "/v1/findings",
        "/v1/deployments/ns/chat",
    ],
)
def test_what_a_client_has_is_not_sent_again(client, path):
    """Each list and document has a tag."""
    etag = client.get(path).headers["etag"]

    assert client.get(path, headers={"If-None-Match": etag}).status_code == 304


def test_completeness_says_what_it_rests_on(client):
    """No source, no ratio: null, and never 1."""
    assert client.get("/v1/completeness/ns/chat").json()["completeness_ratio"] is None


@pytest.mark.parametrize("query", ["start=5&end=4", "start=nan", "end=1e300", "start=-1"])
def test_spans_that_are_none_are_refused(client, query):
    """In our words."""
    response = client.get(f"/v1/deployments/ns/chat?{query}")

    assert response.status_code in {400, 422}
    assert set(response.json()) == {"what", "where", "fix"}


def test_what_if_tells_what_another_size_gives(client, served):
    """The answer's difference is the curve's: more L1 hits more, none hits what L0 does."""
    more = client.request("POST", "/v1/what-if/ns/chat", json={"l1_bytes": 40 * 4 * w.CHUNK_BYTES}).json()
    none = client.request("POST", "/v1/what-if/ns/chat", json={"l1_bytes": 0}).json()
    same = client.request("POST", "/v1/what-if/ns/chat", json={}).json()

    def total(answer: dict) -> float:
        return answer["predicted"]["hit_ratio"]["total"]["value"]

    assert total(none) < total(same) < total(more)
    assert same["predicted"] == same["today"] == more["today"]
    assert none["predicted"]["hit_ratio"]["l1"]["value"] == 0.0


def test_a_tier_the_deployment_does_not_have_can_be_tried(client):
    """An L2 behind today's L1: what it would serve, and nothing of it today."""
    answer = client.request("POST", "/v1/what-if/ns/chat", json={"l2_bytes": 1e9}).json()

    assert answer["today"]["hit_ratio"]["l2"]["value"] == 0.0
    assert answer["predicted"]["hit_ratio"]["l2"]["value"] > 0.05


def test_another_l0_is_replayed_too(client):
    """Twice the blocks serve more from the GPU."""
    size = 64 * w.BLOCK_TOKENS * w.BYTES_PER_TOKEN
    answer = client.request("POST", "/v1/what-if/ns/chat", json={"l0_bytes": size}).json()

    assert answer["predicted"]["hit_ratio"]["l0"]["value"] > answer["today"]["hit_ratio"]["l0"]["value"]


@pytest.mark.parametrize(
    "sizes", [{"l1_bytes": -1}, {"l1_bytes": "many"}, {"l0_bytes": 0}, {"l2_bytes": 1e30}, []]
)
def test_sizes_that_are_none_are_refused(client, sizes):
    """Before anything is computed."""
    assert client.request("POST", "/v1/what-if/ns/chat", json=sizes).status_code == 422


def test_without_evidence_nothing_is_predicted(client, store):
    """It says what is missing instead."""
    store.evidences[ENDPOINT] = w.evidence(w.window(w.cycle(4, 20)))
    answer = client.request("POST", "/v1/what-if/ns/chat", json={"l1_bytes": 1e9}).json()

    assert (answer["predicted"], answer["today"]) == (None, None)
    assert answer["missing"]


def test_a_question_nobody_waits_for_is_dropped(served, monkeypatch):
    """Between two steps: what comes after the client left is not computed."""
    evidence, deployment = served
    monkeypatch.setattr(asking, "check_model", lambda *_: pytest.fail("it went on"))
    stops = iter([False, True])

    with pytest.raises(Abandoned):
        what_if(evidence, deployment, {Tier.L1: 1e6}, lambda: next(stops))
