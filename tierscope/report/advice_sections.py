"""What to do: the advised changes with what applies and what undoes them, and the findings."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tierscope.advice.compared import Compared
from tierscope.advice.document import Apply, Change, Finding, Recommendation, Status
from tierscope.domain.severity import Severity
from tierscope.report.ahead_sections import ahead, cost
from tierscope.report.markup import Child, Html, el, join, table
from tierscope.report.material import Material
from tierscope.report.words import (
    NOT_KNOWN,
    completeness,
    estimate_ratio,
    estimate_seconds,
    number,
    ratio,
    seconds,
    span,
    time,
    what_changes,
)

Parts = Iterator[Child]


def advice(material: Material) -> Parts:
    """Every change with what it should bring, why, how, and when to undo it."""
    found = material.recommendation
    if found is None:
        yield el(
            "p", "No data, because no recommendation was computed for this endpoint yet.", class_="absent"
        )
        return
    yield el("p", _rests_on(found), class_="rests")
    if found.status is Status.INSUFFICIENT_EVIDENCE:
        yield table(
            "What is missing before anything can be advised",
            ("what", "have", "need", "wait"),
            (
                (part.what, _plain(part.have), _plain(part.need), _wait(part.wait_seconds))
                for part in found.evidence.missing
            ),
        )
    if found.status is Status.NO_CHANGE:
        yield el("p", "Nothing is to be changed.")
    for place, change in enumerate(found.changes, start=1):
        yield el("article", *_change(place, change, found.current.currency))
    yield from ahead(found)
    yield from _became(material)


def _became(material: Material) -> Parts:
    """Earlier changes, advised or not: whether what was foretold of them came."""
    yield el("h3", "What became of earlier changes")
    if not material.followed:
        yield el(
            "p",
            "No data, because no size of a tier was changed in the last week, and no advice was followed.",
            class_="absent",
        )
        return
    yield table(
        "Changes, newest first: share of prompt tokens from any cache",
        ("in force since", "changes", "advised", "expected", "observed", "kept"),
        (
            (
                time(one.in_force_since.timestamp()),
                ", ".join(one.changes),
                "no" if one.advised_at is None else "yes",
                estimate_ratio(one.predicted.hit_ratio.total),
                _observed(one),
                {True: "yes", False: "no, below its interval", None: NOT_KNOWN}[one.kept],
            )
            for one in material.followed
        ),
    )


def _observed(one: Compared) -> str:
    if one.observed is None:
        return f"no data, because {one.absent_because}"
    return f"{ratio(one.observed.hit_ratio)} of {number(one.observed.requests)} requests"


def findings(material: Material) -> Parts:
    """What a person should know, gravest first, each with what to do."""
    found = material.recommendation
    if found is None:
        yield el(
            "p", "No data, because findings come with a recommendation, and there is none.", class_="absent"
        )
        return
    if not found.findings:
        yield el("p", "Nothing was found.")
    order = list(Severity)[::-1]
    for place, finding in enumerate(sorted(found.findings, key=lambda one: order.index(one.severity))):
        yield el("article", *_finding(place, finding), class_=f"finding {finding.severity.value}")


def _rests_on(found: Recommendation) -> str:
    evidence = found.evidence
    when = span(found.window.start.timestamp(), found.window.end.timestamp())
    parts = [
        f"Rests on {number(evidence.requests)} requests, {when}",
        f"records that arrived: {completeness(evidence.completeness_ratio)}",
    ]
    if evidence.holdout_mae is not None:
        parts.append(f"error of predicting its second half from its first: {ratio(evidence.holdout_mae)}")
    if evidence.drift:
        parts.append("the traffic drifts")
    if (outcomes := evidence.outcomes) is not None:
        parts.append(
            f"of {number(outcomes.compared)} earlier changes {number(outcomes.missed)} came outside their "
            f"intervals; for it, intervals are wider by {100 * outcomes.hit_ratio.total:.1f} points of hit "
            f"ratio and {ratio(outcomes.ttft_ratio)} of TTFT"
        )
    return f"{'; '.join(parts)}."


def _change(place: int, change: Change, currency: str | None) -> Parts:
    predicted = change.predicted
    yield el("h3", f"{place}. {what_changes(change)}")
    yield el("p", change.why)
    yield table(
        "Expected once it is in force and warm, with 95 % intervals",
        ("what", "expected"),
        (
            ("tokens from any cache", estimate_ratio(predicted.hit_ratio.total)),
            ("from L0", estimate_ratio(predicted.hit_ratio.l0)),
            ("from L1", estimate_ratio(predicted.hit_ratio.l1)),
            ("from L2", estimate_ratio(predicted.hit_ratio.l2)),
            ("median TTFT", estimate_seconds(predicted.ttft_p50_seconds)),
            ("TTFT, 9 of 10 are faster", estimate_seconds(predicted.ttft_p90_seconds)),
            ("mean TTFT", estimate_seconds(predicted.ttft_mean_seconds)),
            ("cost per hour", cost(predicted.cost_per_hour, currency)),
        ),
    )
    yield el("h4", "How to apply it")
    yield from (_step(f"{change.id}-{number_}", step) for number_, step in enumerate(change.apply))
    yield from _listed("Mind", change.risks)
    yield el("h4", "Undo it if")
    for reason in change.revert_if:
        bound = f"{reason.comparison} {reason.value:.4g} for {reason.for_seconds / 60:.0f} minutes"
        yield el("p", f"{reason.what} ({bound}), asked of Prometheus:")
        yield _to_copy(f"{change.id}-{reason.what}", reason.query)


def _finding(place: int, finding: Finding) -> Parts:
    yield el("h3", el("span", finding.severity.value, class_="badge"), " ", finding.title)
    yield el("p", finding.evidence)
    yield el("p", el("strong", "What to do: "), finding.fix)
    yield from (_step(f"finding-{place}-{number_}", step) for number_, step in enumerate(finding.apply))
    yield el("p", f"kind {finding.kind.value}", class_="rests")


def _listed(title: str, lines: tuple[str, ...]) -> Parts:
    if lines:
        yield el("h4", title)
        yield el("ul", *(el("li", line) for line in lines))


def _step(name: str, step: Apply) -> Html:
    return join(
        (
            el("p", step.what),
            el("p", f"as {step.format.value}:", class_="rests"),
            _to_copy(name, _written(step)),
        )
    )


def _written(step: Apply) -> str:
    if isinstance(step.document, dict) and step.format.value == "env":
        return "\n".join(f"{name}={value}" for name, value in step.document.items())
    if isinstance(step.document, str):
        return step.document
    return json.dumps(step.document, indent=2, ensure_ascii=False)


def _to_copy(name: str, text: str) -> Html:
    code = el("pre", el("code", text), tabindex="0", role="region", aria_label=f"text to copy, {name}")
    return el("div", el("button", "copy", type="button", aria_label=f"copy, {name}"), code, class_="copy")


def _plain(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.4g}"


def _wait(value: float | None) -> str:
    return "waiting does not help, or cannot be told" if value is None else seconds(value)
