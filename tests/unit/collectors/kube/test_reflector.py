"""Lists and watches against a server in memory: resuming, versions gone, kinds that are not there."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from collectors.complaints import Complaints
from collectors.kube import reflector as reflecting
from collectors.kube.client import Absent, Expired, Listed
from collectors.kube.kinds import ENDPOINT, KINDS, POD
from collectors.kube.reflector import Reflector
from collectors.kube.watcher import KubeWatcher
from tests.exporting import await_true
from tests.kubernetes import Objects
from tierscope.domain.deployment import Objective
from tierscope.domain.errors import SourceUnreadable, StoreUnusable


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """A pause between attempts tells nothing here."""
    for name in ("FIRST_PAUSE_SECONDS", "MOST_PAUSE_SECONDS", "ABSENT_PAUSE_SECONDS"):
        monkeypatch.setattr(reflecting, name, 0.01)


class Watch:
    """Hands out what the server puts in, until it is ended."""

    END = object()

    def __init__(self) -> None:
        self.events: queue.Queue = queue.Queue()

    def __iter__(self) -> Iterator:
        while (event := self.events.get()) is not self.END:
            if isinstance(event, Exception):
                raise event
            yield event

    def close(self) -> None:
        self.events.put(self.END)


class Server:
    """Holds objects of one kind; `refuses` is raised instead of an answer."""

    def __init__(self, *names: str) -> None:
        self.objects = dict.fromkeys(names, 1)
        self.version = 1
        self.refuses: Exception | None = None
        self.lists = 0
        self.watched: list[str] = []
        self.watch_open = Watch()

    def list_all(self, path: str) -> Listed:
        if self.refuses is not None:
            raise self.refuses
        self.lists += 1
        return Listed([pod(name, version) for name, version in self.objects.items()], str(self.version))

    def watch(self, path: str, resource_version: str) -> Watch:
        if self.refuses is not None:
            raise self.refuses
        self.watched.append(resource_version)
        self.watch_open = Watch()
        return self.watch_open

    def say(self, event: str, name: str, version: int) -> None:
        self.version = version
        self.watch_open.events.put({"type": event, "object": pod(name, version)})


def pod(name: str, version: int) -> dict:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "n", "resourceVersion": str(version)}}


@contextmanager
def reflecting_on(server: Server, kind=POD):
    reflector = Reflector(server, kind, None, lambda: None, Complaints(lambda: 0.0))
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()
        reflector.join()


def names(reflector: Reflector) -> set[str]:
    return {name for _, name in reflector.objects()}


def test_changes_follow_the_list():
    """What is added, changed and deleted after the list is known without another list."""
    server = Server("a", "b")
    with reflecting_on(server) as reflector:
        await_true(lambda: server.watched == ["1"], "it watches")
        server.say("ADDED", "c", 2)
        server.say("DELETED", "a", 3)
        await_true(lambda: names(reflector) == {"b", "c"}, "both are seen")

    assert server.lists == 1


def test_a_watch_that_ends_is_taken_up_where_it_was():
    """From the last version seen, a bookmark's among them; the list is not read again."""
    server = Server("a")
    with reflecting_on(server) as reflector:
        await_true(lambda: server.watched == ["1"], "it watches")
        server.say("MODIFIED", "a", 5)
        server.say("BOOKMARK", "", 9)
        server.watch_open.close()
        await_true(lambda: server.watched == ["1", "9"], "it watches on")

        assert (names(reflector), server.lists) == ({"a"}, 1)


def test_a_version_that_is_gone_means_a_new_list():
    """After 410 the list is read anew: what vanished meanwhile is gone, what came is there."""
    server = Server("a")
    with reflecting_on(server) as reflector:
        await_true(lambda: server.watched == ["1"], "it watches")
        server.objects, server.version = {"b": 7}, 7
        server.watch_open.events.put(Expired("gone", where="w", fix="list"))
        await_true(lambda: server.watched == ["1", "7"], "it watches from the new list")

        assert names(reflector) == {"b"}


def test_while_a_server_is_away_what_was_seen_stays():
    """It is said to be out of date, and mended once the server is back."""
    server = Server("a")
    with reflecting_on(server) as reflector:
        await_true(lambda: reflector.is_up, "it is up")
        server.refuses = SourceUnreadable("away", where="w", fix="wait")
        server.watch_open.events.put(server.refuses)
        await_true(lambda: not reflector.is_up, "it is down")
        assert names(reflector) == {"a"}

        server.objects, server.refuses = {"b": 2}, None
        await_true(lambda: reflector.is_up and names(reflector) == {"b"}, "it is well again")


def test_a_custom_kind_that_is_not_installed_is_no_fault():
    """It counts as listed and empty, and is found once it is installed."""
    server = Server()
    server.refuses = Absent("no such kind", where="w", fix="install it")
    with reflecting_on(server, ENDPOINT) as reflector:
        await_true(lambda: reflector.has_listed and reflector.is_up, "it does without")
        server.refuses = None
        server.objects = {"late": 1}
        await_true(lambda: names(reflector) == {"late"}, "it is found")


def test_an_object_that_cannot_be_read_costs_the_others_nothing(caplog):
    """It is left out, and named in the log."""
    server = Server("a")
    with reflecting_on(server) as reflector:
        await_true(lambda: server.watched == ["1"], "it watches")
        server.watch_open.events.put({"type": "ADDED", "object": {"metadata": {"name": 7}}})
        server.say("ADDED", "b", 4)
        await_true(lambda: names(reflector) == {"a", "b"}, "the other is seen")

    assert "this Pod cannot be read" in caplog.text


class Everything:
    """Lists a fixture's objects by kind; nothing ever happens after that."""

    def __init__(self, objects: Objects) -> None:
        self.of = {kind.path(None): [o for o in objects.all if o["kind"] == kind.name] for kind in KINDS}

    def list_all(self, path: str) -> Listed:
        return Listed(self.of[path], "1")

    def watch(self, path: str, resource_version: str) -> Watch:
        return Watch()


def test_deployments_are_recorded_once_and_when_they_change():
    """Nothing before every kind was listed; then each deployment, and again only what is different."""
    objects, recorded = Objects(), []
    server = Everything(objects)
    complaints = Complaints(lambda: 0.0)
    options = {"shapes": {}, "objective": Objective(), "settle_seconds": 0.0}
    watcher = KubeWatcher(server, (), recorded.append, complaints, **options)
    watcher.start()
    try:
        await_true(lambda: len(recorded) == 1, "it is recorded")
        [reflector] = [one for one in watcher._reflectors if one.kind is ENDPOINT]
        changed = objects.named("InferenceEndpointConfig", "support-chat")
        changed["spec"]["intelligentRoutingSpec"]["routingStrategy"] = "session"
        for _ in range(3):
            reflector._take({"type": "MODIFIED", "object": changed})
        await_true(lambda: len(recorded) == 2, "the change is recorded")
    finally:
        watcher.stop()
        watcher.join()

    assert [one.routing.value for one in recorded] == ["prefixaware", "session"]
    assert watcher.deployments() == (recorded[-1],)


def test_a_deployment_that_the_store_refused_is_offered_again(monkeypatch):
    """A rollout while the disk is full is not forgotten, and in force all the while."""
    monkeypatch.setattr("collectors.kube.watcher.RETRY_SECONDS", 0.01)
    refusals, recorded = [1, 1], []

    def record(deployment) -> None:
        if refusals:
            refusals.pop()
            raise StoreUnusable("the disk is full", where="store", fix="free some space")
        recorded.append(deployment)

    options = {"shapes": {}, "objective": Objective(), "settle_seconds": 0.01}
    watcher = KubeWatcher(Everything(Objects()), (), record, Complaints(lambda: 0.0), **options)
    watcher.start()
    try:
        await_true(lambda: recorded, "it is recorded")
    finally:
        watcher.stop()
        watcher.join()

    assert watcher.deployments() == tuple(recorded)
