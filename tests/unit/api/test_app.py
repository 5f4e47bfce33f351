"""The API over a reader in memory: documents, conditional requests, sums, and one shape of error."""

from __future__ import annotations

import json

import pytest

from api.app import create_app
from tests.asking import Client, assert_problem
from tests.stored import StoredInMemory
from tierscope.advice.schema import recommendation_schema
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.requests import TokenSplit
from tierscope.domain.window import TimeSpan
from tierscope.registry.advice_metrics import ADVICE_AGE_SECONDS
from tierscope.registry.types import Sample

NOW = 1_700_000_000.0
DOCUMENT = {"status": "no_change", "generated_at": "2023-11-14T22:13:20Z", "changes": []}
BODY = json.dumps(DOCUMENT).encode()
ADVISED = {**DOCUMENT, "status": "recommend", "changes": [{"id": "tier_size:l1"}]}


def coverage(owner: str, received: int, missing: int) -> SourceCoverage:
    return SourceCoverage(SourceId(SourceKind.VLLM_HOOK, owner), 7, NOW - 60, NOW, received, missing)


@pytest.fixture
def store() -> StoredInMemory:
    return StoredInMemory(
        recommendations={("ns", "chat"): BODY, ("ns", "code"): json.dumps(ADVISED).encode()},
        records={("ns", "chat"): TokenSplit(100, l0=50, l1=10, l2=15, computed=25)},
        engines={("ns", "chat"): TokenSplit(100, l0=50, external=25, computed=25)},
        sources=(coverage("ns/chat/pod-0/0", 99, 1), coverage("ns/code/pod-0/0", 1, 99)),
    )


@pytest.fixture
def client(store: StoredInMemory) -> Client:
    age = Sample(ADVICE_AGE_SECONDS, ("ns", "chat"), 12.0)
    return Client(create_app(store, lambda: NOW, samples=lambda: [age]))


def test_the_newest_document_is_served_as_it_was_stored(client):
    """Not a byte is changed on the way."""
    response = client.get("/v1/recommendations/ns/chat")

    assert response.status_code == 200
    assert response.content == BODY
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("sent", ["{}", '"older", {}', "W/{}", "*"])
def test_a_document_that_is_known_is_not_sent_again(client, sent):
    """304 without a body for the document's own tag in every form clients send."""
    etag = client.get("/v1/recommendations/ns/chat").headers["etag"]
    again = client.get("/v1/recommendations/ns/chat", headers={"If-None-Match": sent.format(etag)})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)


def test_a_new_document_has_a_new_tag(client, store):
    """An operator that polls gets the document once something changed."""
    etag = client.get("/v1/recommendations/ns/chat").headers["etag"]
    store.recommendations["ns", "chat"] = json.dumps(ADVISED).encode()
    again = client.get("/v1/recommendations/ns/chat", headers={"If-None-Match": etag})

    assert again.status_code == 200
    assert again.headers["etag"] != etag


def test_an_endpoint_without_advice_is_not_found(client):
    """The message says what to do to get one."""
    body = assert_problem(client.get("/v1/recommendations/ns/absent"), 404, "no recommendation for ns/absent")

    assert "collector.deployments" in body["fix"]


def test_the_list_says_in_short_what_is_advised(client):
    """Status and ids of every endpoint, and where the document is."""
    listed = client.get("/v1/recommendations").json()["recommendations"]

    assert [(one["endpoint"], one["status"], one["changes"]) for one in listed] == [
        ("chat", "no_change", []),
        ("code", "recommend", ["tier_size:l1"]),
    ]
    assert client.get(listed[1]["href"]).json() == ADVISED


def test_totals_put_records_and_engines_side_by_side(client, store):
    """The span is the one asked for; completeness is of this endpoint's hooks alone."""
    totals = client.get("/v1/totals/ns/chat", params={"start": 10, "end": 20}).json()

    assert totals["records"] == {"prompt": 100, "l0": 50, "l1": 10, "l2": 15, "external": 0, "computed": 25}
    assert totals["engines"]["external"] == 25
    assert totals["completeness_ratio"] == 0.99
    assert set(map(repr, store.asked)) == {repr(TimeSpan(10.0, 20.0))}


def test_the_span_is_the_last_hour_unless_asked(client, store):
    """Time is the clock's."""
    client.get("/v1/coverage")

    assert store.asked == [TimeSpan(NOW - 3600, NOW)]


def test_an_endpoint_rests_on_its_own_engines_and_on_what_is_shared(client, store):
    """Whatever of them another endpoint's engine publishes; a feed and a node's cache carry everybody's."""
    shared = {SourceKind.FEED: "node-1", SourceKind.LMCACHE_METRICS: "lmcache"}
    own = dict.fromkeys(("vllm_hook", "vllm_events", "vllm_metrics"), "ns/chat/pod-0/0")
    others = dict.fromkeys(own, "ns/code/pod-0/0")
    store.sources = tuple(
        SourceCoverage(SourceId(SourceKind(kind), owner), 1, NOW, NOW, 1, 0)
        for kinds in (own, others, shared)
        for kind, owner in kinds.items()
    )

    sources = client.get("/v1/completeness/ns/chat").json()["sources"]

    assert [one["source"] for one in sources] == [
        f"{kind}:{owner}" for kinds in (own, shared) for kind, owner in kinds.items()
    ]


def test_coverage_lists_every_source(client):
    """What arrived of each stream, with its share."""
    sources = client.get("/v1/coverage").json()["sources"]

    assert [(one["source"], one["completeness_ratio"]) for one in sources] == [
        ("vllm_hook:ns/chat/pod-0/0", 0.99),
        ("vllm_hook:ns/code/pod-0/0", 0.01),
    ]


@pytest.mark.parametrize(
    ("path", "status", "what"),
    [
        ("/v1/totals/ns/absent", 404, "nothing of ns/absent"),
        ("/v1/totals/ns/chat?start=20&end=10", 400, "does not start before"),
        ("/v1/totals/ns/chat?start=soon", 422, "start: Input should be a valid number"),
        ("/v1/coverage?end=nan", 422, "end: Input should be a finite number"),
        ("/v2", 404, "Not Found"),
    ],
)
def test_bad_requests_are_told_in_one_shape(client, path, status, what):
    """Unknown names, wrong arguments and unknown paths all say what, where and how to fix it."""
    assert_problem(client.get(path), status, what)


def test_a_wrong_method_says_which_are_right(client):
    """405 keeps the Allow header."""
    response = client.request("POST", "/v1/coverage")

    assert_problem(response, 405, "Method Not Allowed")
    assert response.headers["allow"] == "GET"


def test_without_the_collector_the_api_lives_but_is_not_ready(client, store):
    """Health asks nobody; readiness and documents say 503 and what to start."""
    store.answers = False

    assert client.get("/health").json() == {"status": "ok"}
    assert_problem(client.get("/ready"), 503, "does not answer")
    assert_problem(client.get("/v1/recommendations/ns/chat"), 503, "does not answer")


def test_with_the_collector_it_is_ready(client):
    """Ready means that the next question will be answered."""
    assert client.get("/ready").json() == {"status": "ready"}


def test_a_defect_is_told_without_its_inside(client, store):
    """A bug is a 500 in the same shape, and no traceback leaves the house."""
    store.recommendations["ns", "chat"] = b"no json"

    assert_problem(client.get("/v1/recommendations"), 500, "defect")


def test_the_metrics_of_the_process_are_served(client):
    """The samples handed in, in the Prometheus text format."""
    page = client.get("/metrics")

    assert f'{ADVICE_AGE_SECONDS.name}{{endpoint="chat",namespace="ns"}} 12.0' in page.text
    assert page.headers["content-type"].startswith("text/plain")


def test_every_route_and_argument_is_described(client):
    """OpenAPI with a description for each route, argument and error, and the document's own schema."""
    document = client.get("/openapi.json").json()

    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            assert all(argument["description"] for argument in operation.get("parameters", [])), path
            assert {"4XX", "5XX"} <= set(operation["responses"]), path
    schemas = document["components"]["schemas"]
    assert set(schemas["Recommendation"]["properties"]) == set(recommendation_schema()["properties"])
