"""What to do with a recommendation, as functions of what is known: no cluster, no network, no clock.

Annotations are the whole memory: the controller may be killed at any moment and goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

PREFIX = "tierscope.io"
STATUS, ADVICE, ADVISED_AT = f"{PREFIX}/status", f"{PREFIX}/advice", f"{PREFIX}/advised-at"
APPLIED, REVERTED, HELD_BACK = f"{PREFIX}/applied", f"{PREFIX}/reverted", f"{PREFIX}/held-back"

Json = dict[str, Any]
Operations = list[Json]


@dataclass(frozen=True)
class Policy:
    """What may be done without a person. With no kind of change allowed, resources are only annotated."""

    kinds: frozenset[str] = frozenset()
    """Kinds of change that may be patched: tier_size, routing, config …"""
    most_age_seconds: float = 3600.0
    """Older advice is shown and not applied."""
    watch_seconds: float = 86_400.0
    """How long an applied change is watched, and nothing else applied, before it is taken for good."""


@dataclass(frozen=True)
class Applied:
    """A change that is being watched. `since` is when each of its reasons to revert began to hold."""

    change: str
    to: Any
    at_unix_seconds: float
    undo: Operations
    revert_if: list[Json]
    since: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """What to write to the resource; an annotation of None is taken away."""

    annotations: dict[str, str | None]
    change: Json | None = None
    """The change to apply, after the server has accepted its patches in a dry run."""


def decide(
    document: Json, annotations: Mapping[str, str], policy: Policy, now_unix_seconds: float
) -> Decision:
    """Say what is advised, and apply the first change if everything allows it."""
    status, changes = str(document["status"]), list(document["changes"])
    told: dict[str, str | None] = {
        STATUS: status,
        ADVISED_AT: str(document["generated_at"]),
        ADVICE: "; ".join(in_words(change) for change in changes) or None,
        HELD_BACK: None,
    }
    if status != "recommend" or not changes or not policy.kinds:
        return Decision(told)
    reason = _why_not(document, changes[0], annotations, policy, now_unix_seconds)
    if reason is not None:
        return Decision(told | {HELD_BACK: reason})
    return Decision(told, changes[0])


def _why_not(
    document: Json, change: Json, annotations: Mapping[str, str], policy: Policy, now_unix_seconds: float
) -> str | None:
    """Why the first change is left to a person; the others rest on it, so they wait with it."""
    age = now_unix_seconds - datetime.fromisoformat(document["generated_at"]).timestamp()
    critical = [finding["kind"] for finding in document["findings"] if finding["severity"] == "critical"]
    by_hand = sorted({step["format"] for step in change["apply"]} - {"json_patch"})
    before = json.loads(annotations.get(REVERTED, "{}"))
    checks = (
        (APPLIED in annotations, "a change is being watched"),
        (change["kind"] not in policy.kinds, f"{change['kind']} is not allowed by the policy"),
        (age > policy.most_age_seconds, f"the advice is {age / 60:.0f} minutes old"),
        (bool(critical), f"critical findings come first: {', '.join(critical)}"),
        (bool(by_hand) or not change["apply"], f"a person has to take steps: {', '.join(by_hand) or 'all'}"),
        (not change["revert_if"], "nothing says when to undo it"),
        (before.get(change["id"]) == change["to"], "it was applied before and had to be undone"),
    )
    return next((reason for holds, reason in checks if holds), None)


def applied_of(change: Json, before: Json, after: Json, now_unix_seconds: float) -> Applied:
    """What is remembered of a change: how to undo it, and when to."""
    return Applied(change["id"], change["to"], now_unix_seconds, undo(before, after), change["revert_if"])


def undo(before: Json, after: Json) -> Operations:
    """The patch from `after` back to `before`, for what of `spec` nobody changed since."""
    then, now = before.get("spec", {}), after.get("spec", {})
    operations: Operations = []
    for name in sorted({*then, *now}):
        if then.get(name) == now.get(name):
            continue
        path = f"/spec/{name.replace('~', '~0').replace('/', '~1')}"
        if name in now:
            operations.append({"op": "test", "path": path, "value": now[name]})
        if name in then:
            operations.append({"op": "add", "path": path, "value": then[name]})
        else:
            operations.append({"op": "remove", "path": path})
    return operations


def judge(
    applied: Applied, readings: Sequence[float | None], now_unix_seconds: float
) -> tuple[Applied, str | None]:
    """Return what is remembered of a change from now on, and why it has to be undone; None: it has not.

    `readings` are the values of its queries, None where there is none: a gap proves nothing, so the time
    that a reason has to hold begins anew after it.
    """
    since: dict[str, float] = {}
    for reason, value in zip(applied.revert_if, readings, strict=True):
        if value is None or not _is_beyond(reason, value):
            continue
        started = applied.since.get(reason["what"], now_unix_seconds)
        since[reason["what"]] = started
        if now_unix_seconds - started >= reason["for_seconds"]:
            bound = f"{reason['comparison']} {reason['value']:.4g}"
            return replace(applied, since=since), f"{reason['what']}: {value:.4g} is {bound}"
    return replace(applied, since=since), None


def _is_beyond(reason: Json, value: float) -> bool:
    return bool(value < reason["value"] if reason["comparison"] == "<" else value > reason["value"])


def remembered(annotations: Mapping[str, str]) -> Applied | None:
    """The change that is being watched."""
    text = annotations.get(APPLIED)
    return None if text is None else Applied(**json.loads(text))


def memory_of(applied: Applied) -> dict[str, str | None]:
    """The annotation that remembers it."""
    return {APPLIED: json.dumps(asdict(applied), sort_keys=True)}


def forgotten(applied: Applied, annotations: Mapping[str, str], *, undone: bool) -> dict[str, str | None]:
    """The annotations after watching: a change that had to be undone is not applied again."""
    before = json.loads(annotations.get(REVERTED, "{}"))
    if undone:
        return {APPLIED: None, REVERTED: json.dumps({**before, applied.change: applied.to}, sort_keys=True)}
    return {APPLIED: None}


def in_words(change: Json) -> str:
    """A change in one phrase."""
    unit = change["unit"]
    from_, to = (_quantity(change[end], unit) for end in ("from", "to"))
    return f"{change['target']} from {from_} to {to}"


def _quantity(value: Any, unit: str) -> str:  # noqa: ANN401 - a number or a word, as the document has it
    if unit == "bytes" and isinstance(value, int | float):
        return f"{value / 2**30:.1f} GiB"
    return f"{value} {unit}".strip()
