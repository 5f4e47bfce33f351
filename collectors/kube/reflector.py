"""Keeps one kind of object up to date: a list, then what happens after it, again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from collectors.complaints import Complaints
from collectors.kube.client import Absent, Expired, Listed, Watch
from collectors.kube.kinds import Kind
from collectors.kube.objects import Kube
from collectors.kube.state import Key, key_of, metadata_of, read_object
from tierscope.domain.errors import BadInput, SourceUnreadable
from tierscope.domain.worker import Worker

FIRST_PAUSE_SECONDS = 1.0
MOST_PAUSE_SECONDS = 60.0
ABSENT_PAUSE_SECONDS = 300.0
"""How long before a kind that is not installed is asked for again."""


class Lists(Protocol):
    """What a reflector needs of an API server."""

    def list_all(self, path: str) -> Listed:
        """Every object of a list."""
        ...

    def watch(self, path: str, resource_version: str) -> Watch:
        """What happens after a version."""
        ...


class Reflector(Worker):
    """One kind in one namespace (None: in all), held as the server has it. `changed` is called after changes.

    A watch that ends is taken up from the last version seen; one whose version is gone (410), or that
    failed, begins with a list. Objects of a kind that cannot be listed now stay as they were last seen. An
    object that cannot be read is left out and complained of.
    """

    def __init__(
        self,
        api: Lists,
        kind: Kind,
        namespace: str | None,
        changed: Callable[[], None],
        complaints: Complaints,
    ) -> None:
        super().__init__(f"kube-{kind.plural}")
        self.kind = kind
        self._api = api
        self._path = kind.path(namespace)
        self._changed = changed
        self._complaints = complaints
        self._objects: dict[Key, Kube] = {}
        self._version: str | None = None
        self._has_listed = threading.Event()
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._is_up = False

    def stop(self) -> None:
        """Ask it to end, and end its watch."""
        super().stop()
        with self._lock:
            if self._watch is not None:
                self._watch.close()

    @property
    def is_up(self) -> bool:
        """Whether what is held is what the server has, as far as we can know."""
        return self._is_up

    @property
    def has_listed(self) -> bool:
        """Whether the kind was listed once, or is one that the cluster does without."""
        return self._has_listed.is_set()

    def objects(self) -> Mapping[Key, Kube]:
        """What is held now."""
        with self._lock:
            return dict(self._objects)

    def _run(self) -> None:
        who, pause = f"kubernetes {self.kind.plural}", FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                self._follow()
            except Expired:
                self._version = None
                continue
            except Absent as error:
                self._version, pause = None, ABSENT_PAUSE_SECONDS
                self._absent(who, error)
            except SourceUnreadable as error:
                self._version, self._is_up = None, False
                self._complaints.say(who, error)
            else:
                self._complaints.over(who)
                pause = FIRST_PAUSE_SECONDS
                continue
            self._stopping.wait(pause)
            pause = min(2 * pause, MOST_PAUSE_SECONDS)

    def _absent(self, who: str, error: Absent) -> None:
        """The kind is not there: for a custom resource that is an answer, for all others a fault."""
        self._is_up = self.kind.is_optional
        if not self.kind.is_optional:
            self._complaints.say(who, error)
            return
        with self._lock:
            self._objects = {}
        self._has_listed.set()
        self._changed()

    def _follow(self) -> None:
        """List if need be, then follow one watch to its end."""
        if self._version is None:
            listed = self._api.list_all(self._path)
            self._replace(listed)
        watch = self._api.watch(self._path, self._version or "")
        with self._lock:
            self._watch = watch
        try:
            if self._stopping.is_set():
                watch.close()
            for event in watch:
                self._take(event)
        finally:
            with self._lock:
                self._watch = None

    def _replace(self, listed: Listed) -> None:
        found: dict[Key, Kube] = {}
        for item in listed.items:
            read = self._read(item)
            if read is not None:
                found[key_of(read)] = read
        with self._lock:
            self._objects = found
        self._version, self._is_up = listed.resource_version, True
        self._has_listed.set()
        self._changed()

    def _take(self, event: Mapping[str, object]) -> None:
        item = event.get("object")
        read = self._read(item) if isinstance(item, Mapping) else None
        if read is None:
            return
        self._version = metadata_of(read).resource_version or self._version
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                with self._lock:
                    self._objects[key_of(read)] = read
            case "DELETED":
                with self._lock:
                    self._objects.pop(key_of(read), None)
            case _:  # a bookmark: the version alone is new
                return
        self._changed()

    def _read(self, item: Mapping[str, object]) -> Kube | None:
        who = f"kubernetes {self.kind.plural}, one object"
        try:
            read = read_object(self.kind, item, self._path)
        except BadInput as error:
            self._complaints.say(who, error)
            return None
        return read
