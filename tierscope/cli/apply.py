"""`tierscope apply`: show one recommended change, have the server check it, and apply it if asked."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypedDict

import typer

from tierscope.cli.options import Json
from tierscope.domain.errors import BadInput

if TYPE_CHECKING:
    from tierscope.advice.document import Apply, Change, Recommendation

Object = Mapping[str, object]


class Done(TypedDict):
    """What came of a change: whether it is in force, what it does to the resource, what is left to people."""

    change: str
    applied: bool
    diff: list[str]
    by_hand: list[str]


class Kubernetes(Protocol):
    """What applying needs of an API server."""

    def get(self, path: str) -> Object:
        """Read one object."""
        ...

    def patch(self, path: str, operations: object, *, dry_run: bool) -> Object:
        """Apply a JSON patch, or have the server check it."""
        ...

    def create(self, path: str, document: Object) -> Object:
        """Create an object."""
        ...


def apply(
    document: Annotated[
        Path, typer.Argument(help="The recommendation: what `tierscope recommend --json` printed.")
    ],
    change: Annotated[
        str | None, typer.Option("--change", help="Id of the change; needed if there are more.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--yes", help="Only show it and have the server check it, or apply it.")
    ] = True,
    kubeconfig: Annotated[str | None, typer.Option(help="Kubeconfig file.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    as_json: Json = False,
) -> None:
    """Show what a recommended change does to the endpoint's resource; with --yes, apply it and say so."""
    from collectors.kube.client import connect
    from tierscope.advice.document import parse_recommendation
    from tierscope.cli.output import print_json

    try:
        recommendation = parse_recommendation(json.loads(document.read_bytes()))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"the recommendation cannot be read: {error}", where=str(document), fix="print it with --json"
        ) from error
    chosen = _chosen(recommendation, change, str(document))
    api = connect(kubeconfig, context)
    try:
        done = carry_out(api, recommendation, chosen, dry_run=dry_run, now_unix_seconds=time.time())
    finally:
        api.close()
    if as_json:
        print_json(dict(done))
        return
    _print(chosen, done)


def _print(chosen: Change, done: Done) -> None:
    from tierscope.cli.output import stdout

    stdout.print(f"{chosen.id}: {chosen.why}", markup=False)
    for risk in chosen.risks:
        stdout.print(f"risk: {risk}", markup=False)
    for line in done["diff"]:
        stdout.print(line, markup=False)
    for step in done["by_hand"]:
        stdout.print(f"by hand: {step}", markup=False)
    stdout.print("applied" if done["applied"] else "nothing was changed; --yes applies it", markup=False)


def carry_out(
    api: Kubernetes, recommendation: Recommendation, change: Change, *, dry_run: bool, now_unix_seconds: float
) -> Done:
    """Check a change on the server, and apply it unless it is a dry run.

    The server checks every patch before the first is applied. What is no patch of the resource is left to
    the reader, and nothing is applied then: half a change may be worse than none.
    """
    from tierscope.advice.document import ApplyFormat

    patches = [step for step in change.apply if step.format is ApplyFormat.JSON_PATCH]
    by_hand = [step for step in change.apply if step.format is not ApplyFormat.JSON_PATCH]
    path, before = _resource(api, recommendation)
    after = before
    for step in patches:
        after = api.patch(path, step.document, dry_run=True)
    applied = bool(patches) and not by_hand and not dry_run
    if applied:
        for step in patches:
            after = api.patch(path, step.document, dry_run=False)
        _tell(api, recommendation, change, before, now_unix_seconds)
    return {
        "change": change.id,
        "applied": applied,
        "diff": _diff(before, after),
        "by_hand": [_in_words(step) for step in by_hand],
    }


def _chosen(recommendation: Recommendation, wanted: str | None, where: str) -> Change:
    known = {change.id: change for change in recommendation.changes}
    if wanted is None and len(known) == 1:
        return next(iter(known.values()))
    if wanted in known:
        return known[wanted]
    there = f"it has {', '.join(known)}" if known else "it recommends none"
    raise BadInput(
        f"there is no change {wanted}; {there}" if wanted else f"which change is not said; {there}",
        where=where,
        fix="name one with --change",
    )


def _resource(api: Kubernetes, recommendation: Recommendation) -> tuple[str, Object]:
    """The endpoint's resource, of whichever kind it is."""
    from collectors.kube.client import Absent
    from collectors.kube.kinds import ENDPOINT, JUMPSTART

    current = recommendation.current
    paths = [f"{kind.path(current.namespace)}/{current.endpoint}" for kind in (ENDPOINT, JUMPSTART)]
    try:
        return paths[0], api.get(paths[0])
    except Absent:
        return paths[1], api.get(paths[1])


def _tell(
    api: Kubernetes, recommendation: Recommendation, change: Change, item: Object, now_unix_seconds: float
) -> None:
    """Leave an event at the resource: `kubectl describe` shows what was changed, and from what to what."""
    from tierscope.advice.document import utc

    namespace, at = recommendation.current.namespace, utc(now_unix_seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = item.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, Mapping) else None
    api.create(
        f"/api/v1/namespaces/{namespace}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "tierscope-", "namespace": namespace},
            "involvedObject": {
                "apiVersion": item.get("apiVersion"),
                "kind": item.get("kind"),
                "name": recommendation.current.endpoint,
                "namespace": namespace,
                "uid": uid,
            },
            "reason": "TierscopeApplied",
            "message": f"{change.id}: {change.from_} to {change.to} {change.unit}",
            "type": "Normal",
            "source": {"component": "tierscope"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        },
    )


def _diff(before: Object, after: Object) -> list[str]:
    """What changes of `spec`, as YAML lines with their surroundings."""
    import yaml

    today, then = (yaml.safe_dump(one.get("spec"), sort_keys=True).splitlines() for one in (before, after))
    return list(difflib.unified_diff(today, then, "today", "then", lineterm=""))


def _in_words(step: Apply) -> str:
    return f"{step.what} {json.dumps(step.document)}"
