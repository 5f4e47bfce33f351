"""The operator example without a cluster: what it decides, and what comes of it over some rounds."""

from __future__ import annotations

import copy
import json
from datetime import datetime

import httpx
import kopf
import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from tests.operator_example import FOLDER, advice, controller, policy

NOW = datetime.fromisoformat("2026-01-01T00:10:00Z").timestamp()
MAY = policy.Policy(kinds=frozenset({"tier_size"}))


def held_back(document: dict, annotations: dict | None = None, of=MAY, now: float = NOW) -> str | None:
    decision = policy.decide(document, annotations or {}, of, now)
    assert (decision.change is None) == (decision.annotations[policy.HELD_BACK] is not None)
    return decision.annotations[policy.HELD_BACK]


def changed(**fields) -> dict:
    document = advice()
    document["changes"][0].update(fields)
    return document


def test_by_default_it_only_tells():
    """Status and advice in words, whatever is advised, and nothing to apply."""
    decision = policy.decide(advice(), {}, policy.Policy(), NOW)

    assert decision.change is None
    assert decision.annotations[policy.STATUS] == "recommend"
    assert decision.annotations[policy.ADVICE] == "l1 from 8.0 GiB to 16.0 GiB"


def test_a_change_of_an_allowed_kind_is_applied():
    """Fresh, by patches alone, with reasons to undo it."""
    assert policy.decide(advice(), {}, MAY, NOW).change == advice()["changes"][0]


STEP = advice()["changes"][0]["apply"][0]
CRITICAL = {"kind": "hash_seed_mismatch", "severity": "critical"}


@pytest.mark.parametrize(
    ("document", "annotations", "words"),
    [
        (changed(kind="routing"), {}, "not allowed"),
        (
            changed(apply=[STEP, {**STEP, "format": "helm_values"}]),
            {},
            "a person has to take steps: helm_values",
        ),
        (changed(apply=[]), {}, "a person"),
        (changed(revert_if=[]), {}, "when to undo"),
        (advice(generated_at="2025-12-31T00:00:00Z"), {}, "minutes old"),
        (advice(findings=[CRITICAL]), {}, "hash_seed_mismatch"),
        (advice(), {policy.APPLIED: "{}"}, "being watched"),
        (advice(), {policy.REVERTED: json.dumps({"tier_size:l1": 16 * 2**30})}, "had to be undone"),
    ],
)
def test_what_is_not_applied_says_why(document, annotations, words):
    """Each condition by itself keeps it from being applied."""
    assert words in held_back(document, annotations)


def test_another_size_may_follow_one_that_was_undone():
    """Only the same change is not tried again."""
    undone = {policy.REVERTED: json.dumps({"tier_size:l1": 12 * 2**30})}

    assert policy.decide(advice(), undone, MAY, NOW).change is not None


def test_without_advice_there_is_nothing_to_apply():
    """The annotation of earlier advice is taken away."""
    decision = policy.decide(advice(status="no_change", changes=[]), {}, MAY, NOW)

    assert (decision.change, decision.annotations[policy.ADVICE]) == (None, None)


def being_watched() -> policy.Applied:
    return policy.applied_of(advice()["changes"][0], {"spec": {"a": 1}}, {"spec": {"a": 2}}, NOW)


def test_a_reason_has_to_hold_for_its_whole_time():
    """Ten minutes without a break; a good reading or a gap starts it anew."""
    applied, reasons = being_watched(), []
    for minute, value in enumerate([0.4, 0.4, None, *[0.4] * 3, 0.6, *[0.4] * 11]):
        applied, reason = policy.judge(applied, [value], NOW + 60 * minute)
        reasons.append(reason)

    assert reasons[:-1] == [None] * 17
    assert reasons[-1] == "hits stay low: 0.4 is < 0.5"


def test_what_is_remembered_survives_a_restart():
    """The annotation is all it takes."""
    applied, _ = policy.judge(being_watched(), [0.1], NOW)

    assert policy.remembered(policy.memory_of(applied)) == applied
    assert policy.remembered({}) is None


def patched(item: dict, operations: list[dict]) -> dict:
    """A JSON patch of members of objects, as a server would apply it."""
    item = copy.deepcopy(item)
    for one in operations:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:])
        target = item
        for part in way:
            target = target[part]
        if one["op"] == "remove":
            del target[last]
        elif one["op"] != "test":
            target[last] = one["value"]
        elif target.get(last) != one["value"]:
            raise ApiException(status=422, reason="the test failed")
    return item


@pytest.mark.parametrize(
    ("before", "after"),
    [({"a": 1, "b/c": 2}, {"a": 3, "b/c": 4}), ({"a": 1}, {}), ({}, {"a": {"x": 1}}), ({"a": 1}, {"a": 1})],
)
def test_undoing_gives_back_what_was_there(before, after):
    """Sections that were changed, added or taken away; and not where somebody changed them since."""
    whole = {"spec": before}, {"spec": after}
    operations = policy.undo(*whole)

    assert patched(whole[1], operations) == whole[0]
    assert (operations == []) == (before == after)
    if after and operations:
        with pytest.raises(ApiException):
            patched({"spec": dict.fromkeys(after, "else")}, operations)


class Cluster:
    """One endpoint, patched as a server would; refuses what `refuses` says."""

    def __init__(self) -> None:
        self.item = {
            "apiVersion": "inference.sagemaker.aws.amazon.com/v1",
            "kind": "InferenceEndpointConfig",
            "metadata": {"namespace": "ns", "name": "chat", "uid": "u"},
            "spec": {"replicas": 2},
        }
        self.refuses = False
        self.events: list[tuple[str, str]] = []
        self.writes = 0

    def get(self, namespace: str, name: str) -> dict:
        return copy.deepcopy(self.item)

    def annotate(self, namespace: str, name: str, annotations: dict) -> None:
        self.writes += 1
        merged = {**controller.annotations_of(self.item), **annotations}
        kept = {key: value for key, value in merged.items() if value is not None}
        self.item["metadata"]["annotations"] = kept

    def patch(self, namespace: str, name: str, operations: list, *, dry_run: bool) -> dict:
        if self.refuses:
            raise ApiException(status=422, reason="Unprocessable")
        after = patched(self.item, operations)
        if not dry_run:
            self.item = after
        return after

    def tell(self, item: dict, reason: str, message: str, *, warning: bool = False) -> None:
        self.events.append((reason, message))

    @property
    def annotations(self) -> dict:
        return controller.annotations_of(self.item)


class Sources:
    """Tierscope and Prometheus in one."""

    def __init__(self) -> None:
        self.document, self.hits = advice(), 0.9

    def recommendation(self, namespace: str, name: str) -> dict | None:
        return self.document

    def value(self, query: str) -> float | None:
        return self.hits


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def sources():
    return Sources()


def look(cluster, sources, minute: float, of=MAY) -> None:
    controller.Controller(sources, sources, cluster, of).look_after("ns", "chat", NOW + 60 * minute)


def test_a_change_that_keeps_its_promise_is_kept(cluster, sources):
    """Applied once, watched for a day, then let go."""
    look(cluster, sources, 0)
    assert cluster.item["spec"] == {"replicas": 3}
    look(cluster, sources, 1)
    sources.document = advice(status="no_change", changes=[])
    look(cluster, sources, 24 * 60)

    assert [reason for reason, _ in cluster.events] == ["TierscopeApplied", "TierscopeKept"]
    assert policy.APPLIED not in cluster.annotations
    assert cluster.item["spec"] == {"replicas": 3}


def test_a_change_that_breaks_it_is_undone_and_not_tried_again(cluster, sources):
    """After its ten minutes, although the advice is the same as before; restarts in between do not matter."""
    look(cluster, sources, 0)
    sources.hits = 0.1
    for minute in range(1, 16):
        look(cluster, sources, minute)

    assert cluster.item["spec"] == {"replicas": 2}
    assert [reason for reason, _ in cluster.events] == ["TierscopeApplied", "TierscopeReverted"]
    assert "had to be undone" in cluster.annotations[policy.HELD_BACK]


def test_what_somebody_else_changed_is_left_to_a_person(cluster, sources):
    """The undoing is refused, told, and not tried for ever."""
    look(cluster, sources, 0)
    cluster.item["spec"]["replicas"] = 5
    sources.hits = 0.1
    for minute in range(1, 20):
        look(cluster, sources, minute)

    assert cluster.item["spec"] == {"replicas": 5}
    assert [reason for reason, _ in cluster.events] == ["TierscopeApplied", "TierscopeRevertRefused"]


def test_what_the_server_refuses_is_not_applied(cluster, sources):
    """The dry run's word is in the annotation."""
    cluster.refuses = True
    look(cluster, sources, 0)

    assert cluster.annotations[policy.HELD_BACK] == "the server refuses the patch: Unprocessable"
    assert cluster.item["spec"] == {"replicas": 2}
    assert cluster.events == []


def test_a_resource_is_written_only_when_there_is_news(cluster, sources):
    """A round that finds nothing new leaves it alone."""
    for minute in range(5):
        look(cluster, sources, minute, of=policy.Policy())

    assert cluster.writes == 1
    assert cluster.item["spec"] == {"replicas": 2}


def test_trouble_with_one_endpoint_leaves_the_others_alone(cluster, sources):
    """It is logged, and the round goes on."""
    seen = []

    class Broken(Sources):
        def recommendation(self, namespace, name):
            seen.append(name)
            if name == "a":
                raise httpx.ConnectError("no")
            return super().recommendation(namespace, name)

    made = controller.Controller(Broken(), sources, cluster, policy.Policy(), {("ns", "a"), ("ns", "b")})
    made.round()

    assert seen == ["a", "b"]
    assert cluster.writes == 1


def test_advice_is_asked_for_with_the_tag_that_is_known(monkeypatch, tmp_path):
    """304 gives the document of before, 404 none; the token is read from its file each time."""
    asked = []
    token = tmp_path / "token"
    token.write_text("first\n", "utf-8")

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers)
        if request.url.path.endswith("absent"):
            return httpx.Response(404)
        if "if-none-match" in request.headers:
            return httpx.Response(304)
        return httpx.Response(200, json=advice(), headers={"ETag": '"1"'})

    tierscope = controller.Tierscope("http://api", str(token), None)
    monkeypatch.setattr(
        tierscope, "_client", httpx.Client(base_url="http://api", transport=httpx.MockTransport(answer))
    )
    first = tierscope.recommendation("ns", "chat")
    token.write_text("second\n", "utf-8")

    assert tierscope.recommendation("ns", "chat") == first == advice()
    assert tierscope.recommendation("ns", "absent") is None
    assert [headers["authorization"] for headers in asked[:2]] == ["Bearer first", "Bearer second"]
    assert asked[1]["if-none-match"] == '"1"'


@pytest.mark.parametrize(
    ("result", "value"), [([{"value": [0, "0.25"]}], 0.25), ([], None), ([{"value": [0, "NaN"]}], None)]
)
def test_a_query_without_a_value_is_no_reading(monkeypatch, result, value):
    """Nothing, or not a number, proves nothing."""
    prometheus = controller.Prometheus("http://prometheus")
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"data": {"result": result}}))
    monkeypatch.setattr(
        prometheus, "_client", httpx.Client(base_url="http://prometheus", transport=transport)
    )

    assert prometheus.value("x") == value


def test_nothing_is_applied_that_cannot_be_watched():
    """Kinds without a Prometheus are refused at the start."""
    with pytest.raises(kopf.PermanentError, match="PROMETHEUS_URL"):
        controller.from_environment({"PATCH_KINDS": "tier_size", "TIERSCOPE_URL": "http://api"})


def test_its_pod_changes_nothing_as_it_stands_and_its_roles_read_no_secret():
    """The manifests: annotate only, one at a time, the fewest verbs."""
    [deployment] = yaml.safe_load_all((FOLDER / "deployment.yaml").read_text("utf-8"))
    roles = [one for one in yaml.safe_load_all((FOLDER / "rbac.yaml").read_text("utf-8")) if "rules" in one]
    [container] = deployment["spec"]["template"]["spec"]["containers"]

    assert "PATCH_KINDS" not in {one["name"] for one in container["env"]}
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert {resource for rule in roles[0]["rules"] for resource in rule.get("resources", ())} == {
        "inferenceendpointconfigs",
        "events",
    }
