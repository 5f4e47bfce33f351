"""A controller that brings Tierscope's advice to the endpoints' resources.

    kopf run --standalone --all-namespaces controller.py

Kopf watches the resources; every POLL_SECONDS each endpoint's advice is asked for (with its ETag, so that
nothing is sent unless it is new), `policy.py` decides, and what it decides is written to the resource.
It puts no finalizer on anything: an endpoint can be deleted whether or not this runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import kopf
import kubernetes
import policy
from kubernetes.client.exceptions import ApiException

GROUP, VERSION, PLURAL = "inference.sagemaker.aws.amazon.com", "v1", "inferenceendpointconfigs"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
log = logging.getLogger("tierscope-operator-example")

Object = dict[str, Any]


class Tierscope:
    """The API, asked with the tag of what is known already."""

    def __init__(self, url: str, token_file: str | None, ca_file: str | None) -> None:
        self._client = httpx.Client(base_url=url, verify=ca_file or True, timeout=10.0)
        self._token_file = token_file
        self._known: dict[str, tuple[str, Object]] = {}

    def recommendation(self, namespace: str, name: str) -> Object | None:
        """Return the newest document; None where there is none yet."""
        path = f"/v1/recommendations/{namespace}/{name}"
        headers = {}
        if self._token_file:  # read each time: a service account's token is renewed
            headers["Authorization"] = f"Bearer {Path(self._token_file).read_text('utf-8').strip()}"
        if path in self._known:
            headers["If-None-Match"] = self._known[path][0]
        response = self._client.get(path, headers=headers)
        if response.status_code == 304:
            return self._known[path][1]
        if response.status_code == 404:
            return None
        response.raise_for_status()
        self._known[path] = (response.headers["ETag"], response.json())
        return self._known[path][1]


class Prometheus:
    """Where reasons to revert are asked for."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=10.0)

    def value(self, query: str) -> float | None:
        """Return the value of a query; None where it has none, or Prometheus does not answer."""
        try:
            answer = self._client.get("/api/v1/query", params={"query": query}).raise_for_status().json()
            value = float(answer["data"]["result"][0]["value"][1])
        except (httpx.HTTPError, LookupError, TypeError, ValueError):
            return None
        return value if value == value else None  # noqa: PLR0124 - NaN is no value


class Resources:
    """The endpoints' resources, patched through the API server."""

    def __init__(self) -> None:
        self._objects = kubernetes.client.CustomObjectsApi()
        self._core = kubernetes.client.CoreV1Api()

    def get(self, namespace: str, name: str) -> Object:
        """Read one as it is now."""
        return self._objects.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)

    def annotate(self, namespace: str, name: str, annotations: dict[str, str | None]) -> None:
        """Set annotations, and take away those that are None."""
        body = {"metadata": {"annotations": annotations}}
        self._patch(namespace, name, body, MERGE_PATCH)

    def patch(self, namespace: str, name: str, operations: policy.Operations, *, dry_run: bool) -> Object:
        """Apply a JSON patch, or have the server check it; raises `ApiException` where it is refused."""
        return self._patch(namespace, name, operations, JSON_PATCH, **({"dry_run": "All"} if dry_run else {}))

    def tell(self, item: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """Leave an event at the resource."""
        metadata, at = item["metadata"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        involved = {"apiVersion": item["apiVersion"], "kind": item["kind"]}
        involved |= {key: metadata[key] for key in ("namespace", "name", "uid")}
        event = {
            "metadata": {"generateName": "tierscope-", "namespace": metadata["namespace"]},
            "involvedObject": involved,
            "reason": reason,
            "message": message[:1000],
            "type": "Warning" if warning else "Normal",
            "source": {"component": "tierscope-operator-example"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        self._core.create_namespaced_event(metadata["namespace"], event)

    def _patch(self, namespace: str, name: str, body: object, content_type: str, **more: object) -> Object:
        return self._objects.patch_namespaced_custom_object(
            GROUP, VERSION, namespace, PLURAL, name, body, _content_type=content_type, **more
        )


@dataclass
class Controller:
    """Everything a round needs. `endpoints` is what Kopf saw last: who is there."""

    tierscope: Tierscope
    prometheus: Prometheus | None
    resources: Resources
    policy: policy.Policy
    endpoints: set[tuple[str, str]] = field(default_factory=set)

    def round(self) -> None:
        """Look after every endpoint; trouble with one is logged and leaves the others alone."""
        for namespace, name in sorted(self.endpoints):
            try:
                self.look_after(namespace, name, time.time())
            except (ApiException, httpx.HTTPError, OSError, ValueError, LookupError) as error:
                log.warning("%s/%s: %s", namespace, name, error)

    def look_after(self, namespace: str, name: str, now_unix_seconds: float) -> None:
        """Watch the change in force, then tell what is advised, and apply it if the policy says so."""
        item = self.resources.get(namespace, name)
        applied = policy.remembered(annotations_of(item))
        if applied is not None:
            self._watch(item, applied, now_unix_seconds)
            item = self.resources.get(namespace, name)
        document = self.tierscope.recommendation(namespace, name)
        if document is None:
            return
        decision = policy.decide(document, annotations_of(item), self.policy, now_unix_seconds)
        told = dict(decision.annotations)
        if decision.change is not None:
            told |= self._apply(item, decision.change, now_unix_seconds)
        known = annotations_of(item)
        news = {key: value for key, value in told.items() if known.get(key) != value}
        if news:
            self.resources.annotate(namespace, name, news)

    def _apply(self, item: Object, change: Object, now_unix_seconds: float) -> dict[str, str | None]:
        """Apply a change that the server accepts; returns what is to be remembered.

        It is remembered before it is applied: killed in between, the change is watched although it is not
        in force, which is harmless, instead of in force and watched by nobody.
        """
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        operations = [one for step in change["apply"] for one in step["document"]]
        try:
            after = self.resources.patch(namespace, name, operations, dry_run=True)
        except ApiException as error:
            return {policy.HELD_BACK: f"the server refuses the patch: {error.reason}"}
        applied = policy.applied_of(change, item, after, now_unix_seconds)
        if not applied.undo:
            return {policy.HELD_BACK: "the patch changes nothing"}
        self.resources.annotate(namespace, name, policy.memory_of(applied))
        try:
            self.resources.patch(namespace, name, operations, dry_run=False)
        except ApiException as error:
            return {policy.APPLIED: None, policy.HELD_BACK: f"the server refuses the patch: {error.reason}"}
        self.resources.tell(item, "TierscopeApplied", policy.in_words(change))
        return policy.memory_of(applied)

    def _watch(self, item: Object, applied: policy.Applied, now_unix_seconds: float) -> None:
        """Undo a change that does not do what was promised; let go of one that did for long enough."""
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        asked = [reason["query"] for reason in applied.revert_if]
        readings = [self.prometheus.value(query) if self.prometheus else None for query in asked]
        watched, reason = policy.judge(applied, readings, now_unix_seconds)
        if reason is not None:
            self._revert(item, applied, reason)
        elif now_unix_seconds - applied.at_unix_seconds >= self.policy.watch_seconds:
            done = policy.forgotten(applied, annotations_of(item), undone=False)
            self.resources.annotate(namespace, name, done)
            self.resources.tell(item, "TierscopeKept", f"{applied.change} did what was promised")
        elif watched != applied:
            self.resources.annotate(namespace, name, policy.memory_of(watched))

    def _revert(self, item: Object, applied: policy.Applied, reason: str) -> None:
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        try:
            self.resources.patch(namespace, name, applied.undo, dry_run=True)
            self.resources.patch(namespace, name, applied.undo, dry_run=False)
        except ApiException as error:
            message = f"{applied.change} should be undone by hand, since {reason}; the server: {error.reason}"
            self.resources.tell(item, "TierscopeRevertRefused", message, warning=True)
        else:
            self.resources.tell(item, "TierscopeReverted", f"{applied.change}: {reason}", warning=True)
        done = policy.forgotten(applied, annotations_of(item), undone=True)
        self.resources.annotate(namespace, name, done)


def annotations_of(item: Object) -> dict[str, str]:
    """The annotations of a resource."""
    return item["metadata"].get("annotations") or {}


def from_environment(environment: dict[str, str]) -> Controller:
    """Put a controller together; raises `kopf.PermanentError` for settings that do not go together."""
    kinds = frozenset(filter(None, environment.get("PATCH_KINDS", "").split(",")))
    prometheus = environment.get("PROMETHEUS_URL")
    if kinds and not prometheus:
        raise kopf.PermanentError(
            "PATCH_KINDS needs PROMETHEUS_URL: nothing is applied that cannot be watched"
        )
    return Controller(
        Tierscope(
            environment["TIERSCOPE_URL"],
            environment.get("TIERSCOPE_TOKEN_FILE"),
            environment.get("TIERSCOPE_CA_FILE"),
        ),
        Prometheus(prometheus) if prometheus else None,
        Resources(),
        policy.Policy(kinds),
    )


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: object) -> None:
    """Begin to poll. Kopf itself neither posts events nor looks for definitions: see rbac.yaml."""
    settings.posting.enabled = False
    settings.scanning.disabled = True
    try:
        kubernetes.config.load_incluster_config()
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config()
    memo.controller = from_environment(dict(os.environ))
    memo.rounds = asyncio.create_task(_rounds(memo.controller, float(os.environ.get("POLL_SECONDS", "60"))))


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: object) -> None:
    """Stop polling; a round that has begun is finished by its thread."""
    memo.rounds.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await memo.rounds


@kopf.on.event(GROUP, VERSION, PLURAL)
def seen(type: str | None, namespace: str, name: str, memo: kopf.Memo, **_: object) -> None:  # noqa: A002
    """Remember who is there."""
    endpoints = memo.controller.endpoints
    (endpoints.discard if type == "DELETED" else endpoints.add)((namespace, name))


async def _rounds(controller: Controller, pause_seconds: float) -> None:
    while True:
        await asyncio.to_thread(controller.round)
        await asyncio.sleep(pause_seconds)
