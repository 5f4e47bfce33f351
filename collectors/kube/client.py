"""Talking to a Kubernetes API server: lists and watches as JSON, through the official client."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from tierscope.domain.errors import BadSettings, SourceUnreadable, TierscopeError

LIST_SECONDS = 30.0
"""Longest wait for one page of a list."""
WATCH_SECONDS = 300
"""A watch is opened anew after this time, by the server's doing."""
WATCH_GRACE_SECONDS = 30.0
"""How much longer we wait before we hold the connection for dead."""
PAGE_ITEMS = 500
"""Objects of one page of a list."""
RBAC = "deploy/kubernetes/rbac.yaml"


class Expired(SourceUnreadable):
    """The server no longer knows the version that was asked from (410): the list must be read anew."""


class Absent(SourceUnreadable):
    """The server has no such kind (404): its definition is not installed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A whole list and the version of the cluster it is of."""

    items: Sequence[Mapping[str, object]]
    resource_version: str


class Watch(Protocol):
    """An open watch: events until the server ends it, or `close` is called from another thread."""

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        """Events as {type, object}."""
        ...

    def close(self) -> None:
        """End the iteration, whoever is in it."""
        ...


class KubeApi:
    """One API server. Every method raises `SourceUnreadable`, or its kinds `Absent` and `Expired`."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self.where: str = api.configuration.host

    def list_all(self, path: str) -> Listed:
        """Every object of a list, page by page."""
        items: list[Mapping[str, object]] = []
        more = ""
        while True:
            query = [("limit", str(PAGE_ITEMS)), *([("continue", more)] if more else [])]
            page = self._read("GET", path, query)
            items += _mappings(page.get("items"))
            metadata = page.get("metadata")
            metadata = metadata if isinstance(metadata, Mapping) else {}
            more = str(metadata.get("continue") or "")
            if not more:
                return Listed(items, str(metadata.get("resourceVersion", "")))

    def watch(self, path: str, resource_version: str) -> Watch:
        """Open a watch of what happens after a version."""
        query = [
            ("watch", "true"),
            ("resourceVersion", resource_version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS)),
        ]
        timeout = WATCH_SECONDS + WATCH_GRACE_SECONDS
        return _OpenWatch(self._open("GET", path, query, None, (LIST_SECONDS, timeout)), self._at(path))

    def patch(self, path: str, operations: object, *, dry_run: bool) -> Mapping[str, object]:
        """Apply a JSON patch, or have the server check that it could be."""
        query = [("fieldManager", "tierscope"), *([("dryRun", "All")] if dry_run else [])]
        return self._read("PATCH", path, query, operations)

    def get(self, path: str) -> Mapping[str, object]:
        """Read one object."""
        return self._read("GET", path, [])

    def create(self, path: str, document: Mapping[str, object]) -> Mapping[str, object]:
        """Create an object in a list, or ask a question of those that are objects (reviews)."""
        return self._read("POST", path, [], document)

    def close(self) -> None:
        """Free the connections."""
        self._api.rest_client.pool_manager.clear()

    def _read(
        self, method: str, path: str, query: list[tuple[str, str]], body: object = None
    ) -> Mapping[str, object]:
        response = self._open(method, path, query, body, (LIST_SECONDS, LIST_SECONDS))
        with _as_ours(self._at(path)):
            return _document(response.read(), self._at(path))

    def _open(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: object,
        timeout: tuple[float, float],
    ) -> BaseHTTPResponse:
        kind = "application/json-patch+json" if method == "PATCH" else "application/json"
        with _as_ours(self._at(path)):
            request = self._api.param_serialize(
                method,
                path,
                query_params=query,
                header_params={"Accept": "application/json", "Content-Type": kind},
                body=body,
                auth_settings=["BearerToken"],
            )
            response: BaseHTTPResponse = self._api.call_api(*request, _request_timeout=timeout).response
        if response.status >= 300:
            with _as_ours(self._at(path)):
                text = response.read()
            raise _refusal(response.status, text, f"{method} {self._at(path)}")
        return response

    def _at(self, path: str) -> str:
        return f"{self.where}{path}"


class _OpenWatch:
    def __init__(self, response: BaseHTTPResponse, where: str) -> None:
        self._response = response
        self._where = where
        self._is_closed = False

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        rest = b""
        try:
            with _as_ours(self._where):
                for part in self._response.stream(amt=None, decode_content=False):
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        yield _event(line, self._where)
        except SourceUnreadable:
            if not self._is_closed:
                raise
        finally:
            self._response.release_conn()

    def close(self) -> None:
        self._is_closed = True
        try:
            self._response.shutdown()
        except (ValueError, OSError, HTTPError):
            self._response.close()


def connect(kubeconfig: str | None, context: str | None) -> KubeApi:
    """Reach the API server that a kubeconfig names, else the one of the cluster we run in."""
    settings = client.Configuration()
    try:
        if kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                kubeconfig, context, settings, persist_config=False
            )
    except (ConfigException, OSError, ValueError) as error:
        raise BadSettings(
            [
                TierscopeError(
                    f"the Kubernetes API cannot be found: {error}",
                    where=kubeconfig or "the service account, else KUBECONFIG, else ~/.kube/config",
                    fix="set collector.kubernetes.kubeconfig and context, or run in the cluster",
                )
            ]
        ) from error
    settings.retries = False
    return KubeApi(client.ApiClient(settings))


def _event(line: bytes, where: str) -> Mapping[str, object]:
    event = _document(line, where)
    if event.get("type") == "ERROR":
        status = event.get("object")
        status = status if isinstance(status, Mapping) else {}
        code = status.get("code")
        raise _refusal(code if isinstance(code, int) else 500, json.dumps(status).encode(), f"WATCH {where}")
    return event


def _refusal(status: int, body: bytes, where: str) -> SourceUnreadable:
    """What a status of the server means to us."""
    try:
        said = str(_document(body, where).get("message") or f"status {status}")
    except SourceUnreadable:
        said = f"status {status}"
    match status:
        case 401 | 403:
            fix = f"apply {RBAC} and run with its service account"
            return SourceUnreadable(f"the Kubernetes API refuses: {said}", where=where, fix=fix)
        case 404:
            return Absent(
                f"the Kubernetes API has no such thing: {said}", where=where, fix="install it, if wanted"
            )
        case 410:
            return Expired(f"that version is gone: {said}", where=where, fix="list anew")
        case _:
            return SourceUnreadable(
                f"the Kubernetes API answers {status}: {said}", where=where, fix="see what it says"
            )


def _document(body: bytes, where: str) -> Mapping[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:  # the second: brackets without end
        raise SourceUnreadable(
            "the Kubernetes API answers with what is not JSON", where=where, fix="check what answers there"
        ) from error
    return found if isinstance(found, dict) else {}


def _mappings(items: object) -> list[Mapping[str, object]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


@contextmanager
def _as_ours(where: str) -> Iterator[None]:
    """Turn what the client and its transport raise into our one error."""
    try:
        yield
    except (client.ApiException, HTTPError, OSError, ValueError) as error:
        raise SourceUnreadable(
            f"the Kubernetes API does not answer: {error}", where=where, fix="check that it can be reached"
        ) from error
