"""Advice is renewed for every endpoint, whatever becomes of the others."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext

import pytest

from collectors.adviser import STATUSES, Adviser
from collectors.complaints import Complaints
from tests.exporting import await_true
from tests.ledgers import START, admission, batch
from tierscope.advice.document import Status
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import BadInput
from tierscope.domain.identity import EngineId
from tierscope.registry import advice_metrics as metrics
from tierscope.storage.store import Store

CHAT = Deployment("prod", "chat", "model", 2)
CODE = Deployment("prod", "code", "model", 1)


class Document:
    """A recommendation that says what it rests on."""

    def __init__(self, evidence, deployment, status="no_change") -> None:
        self.document = {
            "status": status,
            "endpoint": deployment.endpoint,
            "requests": evidence.window.requests,
            "span": [evidence.window.span.start_unix_seconds, evidence.window.span.end_unix_seconds],
        }

    def to_json(self):
        return self.document


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", clock=lambda: START) as store:
        code = EngineId("prod", "code", "code-0", 0)
        store.append(
            batch(
                0,
                admission("ab", name="1"),
                admission("abc", name="2", at=START + 10),
                admission("x", name="3", engine=code),
            )
        )
        yield store


def adviser(store, recommend, *deployments, clock=lambda: START + 100, advise_seconds=1e6, turn=None):
    return Adviser(
        store,
        store.reader(),
        recommend,
        lambda: deployments,
        Complaints(lambda: 0.0),
        advise_seconds=advise_seconds,
        window_seconds=95.0,
        clock=clock,
        turn=turn or nullcontext(),
    )


def latest(store, deployment):
    document = store.reader().latest_recommendation(deployment.namespace, deployment.endpoint)
    return None if document is None else json.loads(document)


def run_until(working, condition, what):
    working.start()
    try:
        await_true(condition, what)
    finally:
        working.stop()
        working.join()


def test_an_endpoint_is_advised_on_when_no_one_else_holds_a_window(store):
    """Nothing is read before its turn comes."""
    turn, seen = threading.Lock(), threading.Event()

    def recommend(evidence, deployment, *, now_unix_seconds, earlier):
        assert turn.locked()
        seen.set()
        return Document(evidence, deployment)

    working = adviser(store, recommend, CHAT, turn=turn)
    with turn:
        working.start()
        before = seen.is_set()
    await_true(seen.is_set, "it is advised on")
    working.stop()
    working.join()

    assert not before


def test_each_endpoint_is_advised_on_its_own_evidence(store):
    """The document is made from the endpoint's requests of the window, and saved."""
    seen = []

    def recommend(evidence, deployment, *, now_unix_seconds, earlier):
        seen.append(now_unix_seconds)
        return Document(evidence, deployment)

    working = adviser(store, recommend, CHAT, CODE)
    run_until(working, lambda: latest(store, CODE), "both are advised on")

    assert seen == [START + 100, START + 100]
    assert latest(store, CHAT) == {
        "status": "no_change",
        "endpoint": "chat",
        "requests": 1,
        "span": [START + 5, START + 100],
    }
    assert latest(store, CODE)["requests"] == 0


@pytest.mark.parametrize(
    "trouble", [BadInput("it cannot be read", where="there", fix="look"), ZeroDivisionError("a mistake")]
)
def test_trouble_with_one_endpoint_is_not_the_others(store, trouble, caplog):
    """An error costs its own endpoint's advice alone, and is named."""

    def recommend(evidence, deployment, *, now_unix_seconds, earlier):
        if deployment is CHAT:
            raise trouble
        return Document(evidence, deployment)

    working = adviser(store, recommend, CHAT, CODE)
    run_until(working, lambda: latest(store, CODE), "the other one is advised on")

    assert latest(store, CHAT) is None
    assert any("advice on prod/chat" in record.getMessage() for record in caplog.records)
    assert {sample.labels[1] for sample in working.samples()} == {"code"}


def test_advice_is_renewed_again_and_again(store):
    """Every round replaces the document."""
    rounds = threading.Semaphore(0)

    def recommend(evidence, deployment, *, now_unix_seconds, earlier):
        rounds.release()
        return Document(evidence, deployment)

    working = adviser(store, recommend, CHAT, advise_seconds=0.001)
    working.start()
    for _ in range(3):
        assert rounds.acquire(timeout=30)
    working.stop()
    working.join()

    assert not working.alive


def test_age_and_status_are_published(store):
    """The status that holds is 1, the others are 0; the age is that of the last success."""
    now = [START + 100]

    def recommend(evidence, deployment, *, now_unix_seconds, earlier):
        return Document(evidence, deployment, "recommend")

    working = adviser(store, recommend, CHAT, clock=lambda: now[0])
    assert list(working.samples()) == []
    run_until(working, lambda: latest(store, CHAT), "it is advised on")
    now[0] += 7

    found = {(sample.metric, sample.labels[2:]): sample.value for sample in working.samples()}

    assert found == {
        (metrics.ADVICE_AGE_SECONDS, ()): 7.0,
        (metrics.ADVICE_STATUS, ("recommend",)): 1,
        (metrics.ADVICE_STATUS, ("no_change",)): 0,
        (metrics.ADVICE_STATUS, ("insufficient_evidence",)): 0,
    }


def test_every_status_of_a_document_is_known():
    """A status added to the document is a series, too."""
    assert set(STATUSES) == {status.value for status in Status}
