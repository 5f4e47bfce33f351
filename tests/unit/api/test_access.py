"""Who may ask what: tokens of a file and of Kubernetes, and requests that are refused before any route."""

from __future__ import annotations

import asyncio
import doctest

import pytest

from api import access
from api.access import ACCESS_REVIEWS, TOKEN_REVIEWS, Caller, KubernetesReviews, Scope, TokenFile
from api.app import create_app
from api.guard import Limits
from tests.asking import Client, assert_problem
from tests.stored import StoredInMemory
from tierscope.domain.errors import BadSettings, SourceUnreadable

READER, ASKER = "reader-token-0123456789", "asker-token-0123456789"
LINES = f"# callers\noperator read {READER}\n\nplanner read,what_if,metrics {ASKER}\n"


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(LINES)
    return path


def guarded(tokens, **limits) -> Client:
    store = StoredInMemory(recommendations={("ns", "chat"): b'{"status": "x"}'})
    return Client(create_app(store, lambda: 0.0, access=TokenFile(tokens), limits=Limits(**limits)))


def bearer(token: str) -> dict[str, dict[str, str]]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


def test_examples_in_docstrings_hold():
    """What the docstrings show is what happens."""
    assert doctest.testmod(access).failed == 0


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_is_for_everybody(tokens, path):
    """A probe has no token."""
    assert guarded(tokens).get(path).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/v1/recommendations/ns/chat", "/metrics", "/docs", "/openapi.json", "/nothing"]
)
@pytest.mark.parametrize(
    "sent", [None, "Bearer", "Bearer ", "Basic abc", f"Bearer  {READER}", "Bearer nobody's"]
)
def test_nothing_else_is_answered_without_a_token(tokens, path, sent):
    """Not even whether a path exists."""
    headers = {} if sent is None else {"Authorization": sent}
    response = guarded(tokens).get(path, headers=headers)

    assert_problem(response, 401, "token")
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_token_opens_what_its_scopes_say(tokens):
    """Reading, metrics and what-if are told apart."""
    client = guarded(tokens)

    assert client.get("/v1/recommendations/ns/chat", **bearer(READER)).status_code == 200
    assert_problem(client.get("/metrics", **bearer(READER)), 403, "operator may not")
    assert client.get("/metrics", **bearer(ASKER)).status_code == 200
    assert_problem(client.request("POST", "/v1/what-if/ns/chat", json={}, **bearer(READER)), 403, "may not")
    assert_problem(
        client.request("POST", "/v1/what-if/ns/chat", json={}, **bearer(ASKER)), 404, "configuration"
    )


def test_a_changed_file_counts_at_once(tokens):
    """A token that is taken out is nobody's; while the file is broken, those who had access keep it."""
    callers = TokenFile(tokens)
    assert callers.caller(READER) == Caller("operator", frozenset({Scope.READ}))

    tokens.write_text("half a line")
    assert callers.caller(READER) is not None
    tokens.write_text(f"planner read {ASKER}\n")
    assert callers.caller(READER) is None
    assert callers.caller(ASKER) is not None


def test_a_changed_file_that_cannot_be_used_is_warned_of_without_its_tokens(tokens, caplog):
    """Whoever mistook the order of the words must not find the token in a log."""
    callers = TokenFile(tokens)
    tokens.write_text(f"planner {ASKER} read,what_if,metrics\n")

    assert callers.caller(READER) is not None
    assert f"{tokens}, line 1" in caplog.text
    assert ASKER not in caplog.text


def test_every_line_that_is_wrong_is_named(tokens):
    """With its number, all at once; a token too short to be one is wrong."""
    tokens.write_text(f"a read\nb write {READER}\nc read short\nd read {ASKER}\n")
    with pytest.raises(BadSettings) as refused:
        TokenFile(tokens)

    assert [problem.where.rpartition(" ")[2] for problem in refused.value.problems] == ["1", "2", "3"]


@pytest.mark.parametrize("text", [None, "", "# nobody\n"])
def test_a_file_that_names_nobody_is_refused(tmp_path, text):
    """An API nobody can use is a mistake."""
    path = tmp_path / "tokens"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadSettings):
        TokenFile(path)


class Cluster:
    """Answers reviews as an API server would for one service account."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = set(allowed)
        self.asked: list[str] = []

    def __call__(self, path, document):
        self.asked.append(path)
        spec = document["spec"]
        if path == TOKEN_REVIEWS:
            user = {"username": "sa", "groups": ["g"], "uid": "1"}
            known = spec["token"] == READER
            return {"status": {"authenticated": known, **({"user": user} if known else {})}}
        asked = spec["nonResourceAttributes"]
        assert (path, spec["user"], spec["groups"]) == (ACCESS_REVIEWS, "sa", ["g"])
        return {"status": {"allowed": (asked["verb"], asked["path"]) in self.allowed}}


def test_kubernetes_says_who_and_what():
    """The token's account, and a scope for each path it is allowed."""
    reviews = KubernetesReviews(Cluster(("get", "/v1"), ("get", "/metrics")), lambda: 0.0)

    assert reviews.caller(READER) == Caller("sa", frozenset({Scope.READ, Scope.METRICS}))
    assert reviews.caller("somebody else's") is None


def test_an_answer_of_kubernetes_is_kept_for_a_while():
    """A poll a second costs one review a minute; rights that are taken away are gone after that."""
    now = [0.0]
    cluster = Cluster(("get", "/v1"))
    reviews = KubernetesReviews(cluster, lambda: now[0], keep_seconds=60.0)
    for _ in range(5):
        reviews.caller(READER)
    asked = len(cluster.asked)
    cluster.allowed.clear()
    now[0] = 61.0

    assert asked == 1 + len(Scope)
    assert reviews.caller(READER).scopes == frozenset()


def test_without_kubernetes_nobody_is_let_in():
    """A review that fails is no answer: 503, and the token is not judged."""

    def down(path, document):
        raise SourceUnreadable("away", where="api", fix="wait")

    app = create_app(StoredInMemory(), lambda: 0.0, access=KubernetesReviews(down, lambda: 0.0))
    response = Client(app).get("/v1/recommendations", **bearer(READER))

    assert_problem(response, 503, "cannot be checked")


@pytest.mark.parametrize("body", [b"x" * 101, b"x" * 5000])
def test_a_body_too_long_is_refused(tokens, body):
    """By what its head says, and by what comes if the head says nothing."""
    client = guarded(tokens, body_bytes=100)

    async def parts():
        yield body

    for content in (body, parts()):
        response = client.request("POST", "/v1/what-if/ns/chat", content=content, **bearer(ASKER))
        assert_problem(response, 413, "100 bytes")


def test_a_body_that_does_not_come_is_not_waited_for(tokens):
    """A client that sends nothing holds no place."""
    app = create_app(StoredInMemory(), lambda: 0.0, limits=Limits(body_seconds=0.01))
    sent = []

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/v1/what-if/a/b", "raw_path": b"", "query_string": b"",
        "headers": [], "http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": ("y", 2),
    }  # fmt: skip
    asyncio.run(app(scope, never, send))

    assert sent[0]["status"] == 408


def test_more_requests_than_allowed_are_told_to_wait(tokens):
    """429 with the time to wait, and health is answered all the same."""
    client = guarded(tokens, requests=0)
    response = client.get("/v1/recommendations", **bearer(READER))

    assert_problem(response, 429, "no more are taken")
    assert response.headers["retry-after"] == "1"
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/recommendations/..%2f..%2fetc/passwd", "/docs/../../etc/passwd", "/v1/../metrics"]
)
def test_paths_lead_nowhere_but_to_routes(tokens, path):
    """A path that climbs is no other path: what it needs is asked for, and there is no file behind it."""
    client = guarded(tokens)

    assert client.get(path).status_code == 401
    assert client.get(path, **bearer(READER)).status_code in {403, 404}
