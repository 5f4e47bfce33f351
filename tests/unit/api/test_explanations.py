"""Explanations over a reader in memory, and long answers that wait for each other and for nobody else."""

from __future__ import annotations

import asyncio
import json
import threading

import anyio.to_thread
import numpy as np
import pytest

from api.app import create_app
from api.turns import Kept, OneAtATime, Refreshed
from tests import workloads as w
from tests.asking import Client, assert_problem
from tests.stored import StoredInMemory
from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.window import TimeSpan

ENDPOINT = ("ns", "chat")
PATH = "/v1/explanations/ns/chat"
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def store():
    deployment = w.deployment(8 * 4 * w.CHUNK_BYTES)
    window = w.window(w.drawn(40, 400, np.random.default_rng(5)))
    return StoredInMemory(
        configurations={ENDPOINT: (DeploymentSince(1.0, deployment),)},
        evidences={ENDPOINT: w.served(window, deployment)},
    )


@pytest.fixture
def client(store):
    store.asked.clear()
    return Client(create_app(store, lambda: w.START + 3600.0))


def test_every_computed_token_has_its_cause(client):
    """The causes add up to what the tokens say was computed; the tokens add up to the prompts."""
    found = client.get(PATH).json()

    assert sum(found["misses"]["causes"].values()) == found["tokens"]["computed"] > 0
    assert sum(found["tokens"].values()) == found["prompt_tokens"]
    assert found["prefixes"][0]["requests"] > 1
    assert found["ttft"]["absent_because"]


def test_history_before_the_span_is_read_to_warm_the_tiers(client, store):
    """Six hours unless it is asked otherwise; what is kept is not read again."""
    client.get(PATH)
    client.get(PATH)
    client.get(f"{PATH}?history_seconds=60")

    end = w.START + 3600.0
    assert [span for span in store.asked if span.seconds > 3600.0] == [
        TimeSpan(end - 7 * 3600.0, end),
        TimeSpan(end - 3660.0, end),
    ]


def test_an_unknown_endpoint_and_a_span_that_is_none_are_told(client):
    """In the shape of every error."""
    assert_problem(client.get("/v1/explanations/ns/other"), 404, "nothing of ns/other")
    assert_problem(client.get(f"{PATH}?start=5&end=4"), 400, "does not start before")
    assert_problem(client.get(f"{PATH}?history_seconds=-1"), 422, "history_seconds")


def test_answers_are_kept_for_a_while_and_no_more_than_there_is_room_for():
    """The oldest goes first; an error is not kept."""
    now, asked = [0.0], []
    kept: Kept[int] = Kept(lambda: now[0], keep_seconds=10.0, most=2)

    def ask(name: str) -> int:
        return kept.get(name, lambda: asked.append(name) or len(asked))

    with pytest.raises(ZeroDivisionError):
        kept.get("broken", lambda: 1 // 0)
    assert [ask("a"), ask("b"), ask("a"), ask("c"), ask("a")] == [1, 2, 1, 3, 4]
    now[0] = 10.0
    assert ask("a") == 5


def test_polls_ask_the_store_once_and_a_slow_answer_holds_up_nobody_who_has_one():
    """Who asks at once shares a question; a young answer is kept, an old one given while it is renewed."""
    now, asked, gate = [0.0], [], threading.Event()
    gate.set()

    def ask() -> int:
        asked.append(1)
        gate.wait(PATIENCE_SECONDS)
        return len(asked)

    async def polls() -> list[int]:
        polled: Refreshed[int] = Refreshed(1.0, 10.0, lambda: now[0])
        told = [*await asyncio.gather(*(polled.get("a", ask) for _ in range(5)))]
        now[0] = 0.9
        told.append(await polled.get("a", ask))
        gate.clear()
        now[0] = 2.0
        told += [await polled.get("a", ask), await polled.get("a", ask)]
        gate.set()
        now[0] = 12.5
        told.append(await polled.get("a", ask))
        return told

    assert asyncio.run(polls()) == [1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert len(asked) == 2


def test_an_error_of_the_store_is_told_to_those_who_poll():
    """What was known before it is not given any longer; the next answer counts again."""
    answers = iter([1, None, 3])

    def ask() -> int:
        found = next(answers)
        if found is None:
            raise StoreUnusable("gone", where="there", fix="start it")
        return found

    async def polls() -> list[object]:
        polled: Refreshed[int] = Refreshed(0.0, 1e9)
        first = await polled.get("a", ask)
        stale = await polled.get("a", ask)
        while polled._asking:  # the question that fails is under way
            await asyncio.sleep(0.01)
        return [first, stale, await polled.get("a", ask)]

    assert asyncio.run(polls()) == [1, 1, 3]

    async def dead() -> None:
        await Refreshed[int](0.0, 0.0).get("a", lambda: next(iter([]), 1 // 0))

    with pytest.raises(ZeroDivisionError):
        asyncio.run(dead())


def test_work_is_done_one_at_a_time_and_who_waits_holds_no_thread():
    """With one thread for everybody, a short answer comes while nine long ones wait for the first."""
    running, most, gate = [], [], threading.Event()

    def work() -> None:
        running.append(1)
        most.append(len(running))
        gate.wait(PATIENCE_SECONDS)
        running.pop()

    async def ask() -> str:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 2
        turns = OneAtATime()
        waiting = [asyncio.ensure_future(turns.run(work)) for _ in range(10)]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(anyio.to_thread.run_sync(lambda: "short"), PATIENCE_SECONDS)
        gate.set()
        await asyncio.gather(*waiting)
        return answer

    assert asyncio.run(ask()) == "short"
    assert max(most) == 1


def test_a_what_if_nobody_waits_for_any_more_is_never_begun(store):
    """The client leaves while it waits for its turn: the store is not read for it."""
    app = create_app(reader := Slow(**vars(store)), lambda: w.START + 3600.0)

    async def ask() -> tuple[int, int]:
        first = asyncio.ensure_future(answer_of(app, stays=True))
        while not reader.reading.is_set():
            await asyncio.sleep(0.01)
        seen = asyncio.Event()
        second = asyncio.ensure_future(answer_of(app, stays=False, seen=seen))
        await seen.wait()
        reader.go_on.set()
        return await first, await second

    assert asyncio.run(ask()) == (200, 408)
    assert reader.reads == 1


class Slow(StoredInMemory):
    """A store that answers once it is told to."""

    def __init__(self, **fields) -> None:
        super().__init__(**fields)
        self.reading, self.go_on, self.reads = threading.Event(), threading.Event(), 0

    def evidence(self, namespace, endpoint, span):
        self.reads += 1
        self.reading.set()
        self.go_on.wait(PATIENCE_SECONDS)
        return super().evidence(namespace, endpoint, span)


async def answer_of(app, *, stays: bool, seen: asyncio.Event | None = None) -> int:
    """Ask a what-if and return its status; who does not stay leaves after the body, and is `seen` to."""
    statuses: list[int] = []
    body = [{"type": "http.request", "body": json.dumps({"l1_bytes": 1e6}).encode(), "more_body": False}]

    async def receive() -> dict:
        if not body and stays:
            await asyncio.sleep(PATIENCE_SECONDS)
        if not body and seen is not None:
            seen.set()
        return body.pop() if body else {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    connection = {
        "type": "http", "method": "POST", "path": "/v1/what-if/ns/chat", "raw_path": b"", "scheme": "http",
        "query_string": b"", "headers": [(b"content-type", b"application/json")], "http_version": "1.1",
        "server": ("api", 80), "client": ("c", 1), "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    await app(connection, receive, send)
    return statuses[0]
