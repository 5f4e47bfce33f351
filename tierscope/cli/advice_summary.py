"""A recommendation for people: what to change, what it brings, why, and how to apply it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tierscope.advice.document import Apply, Change, Finding, InstanceChoice, Recommendation, Status
from tierscope.advice.predictions import Estimate
from tierscope.domain.severity import Severity
from tierscope.domain.units import format_bytes, format_seconds

VERDICTS = {
    Status.RECOMMEND: ("bold green", "change this"),
    Status.NO_CHANGE: ("bold", "no change: the sizes of today do what is asked of them"),
    Status.INSUFFICIENT_EVIDENCE: ("bold yellow", "no advice: the evidence does not carry any"),
}
LONGEST_LINE = 76
"""A document to apply stays on one line up to this width."""

COLOURS = {Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def summary(document: Recommendation) -> Group:
    """The whole document as text and tables, most important first."""
    return Group(*_parts(document))


def _parts(document: Recommendation) -> Iterator[RenderableType]:
    style, verdict = VERDICTS[document.status]
    name = f"{document.current.namespace}/{document.current.endpoint}"
    yield Text.assemble((name, "bold"), ": ", (verdict, style))
    if document.evidence.missing:
        yield _missing(document)
    if document.changes:
        yield _changes(document)
    for change in document.changes:
        yield from _details(change)
    for finding in document.findings:
        yield _finding(finding)
    yield from _ahead(document)
    yield Text(_evidence(document), style="dim")


def _missing(document: Recommendation) -> Table:
    table = Table("missing", "have", "need", "wait", title="What is missing", title_justify="left")
    for part in document.evidence.missing:
        wait = "" if part.wait_seconds is None else format_seconds(part.wait_seconds)
        table.add_row(escape(part.what), _number(part.have), _number(part.need), wait)
    return table


def _changes(document: Recommendation) -> Table:
    table = Table(
        "what", "from", "to", "hit ratio then", "TTFT p50 then", "TTFT p90 then", "cost an hour then"
    )
    for change in document.changes:
        predicted = change.predicted
        table.add_row(
            change.target.upper(),
            _size(change.from_, change.unit),
            _size(change.to, change.unit),
            _ratio(predicted.hit_ratio.total),
            _seconds(predicted.ttft_p50_seconds),
            _seconds(predicted.ttft_p90_seconds),
            _cost(predicted.cost_per_hour, document.current.currency),
        )
    return table


def _details(change: Change) -> Iterator[RenderableType]:
    yield Text(f"\n{change.target.upper()}: why", style="bold")
    yield _indented(change.why)
    yield Text("how to apply", style="bold")
    for step in change.apply:
        yield _indented(step.what)
        yield Padding(Text(_written(step), style="cyan"), (0, 0, 0, 4))
    yield Text("mind", style="bold")
    yield from (_indented(f"- {risk}") for risk in change.risks)
    yield Text("undo it if", style="bold")
    for reason in change.revert_if:
        bound = f"{reason.comparison} {reason.value:.4g} for {reason.for_seconds / 60:.0f} minutes"
        yield _indented(f"- {reason.what} ({bound})")


def _finding(finding: Finding) -> Text:
    colour = COLOURS[finding.severity]
    return Text.assemble(
        "\n",
        (f"{finding.severity.value}: {finding.title}", f"bold {colour}"),
        f" [{finding.kind.value}]\n  {finding.evidence}\n  fix: {finding.fix}",
    )


def _ahead(document: Recommendation) -> Iterator[RenderableType]:
    """When tiers will be full, the front where there are prices, and instance types side by side."""
    currency = document.current.currency
    for one in document.forecasts:
        full, earliest, latest = (f"{at:%Y-%m-%d %H:%M}" for at in (one.full_at, one.earliest, one.latest))
        yield Text(
            f"\n{one.tier.value.upper()} ({one.holder}) is full on {full} UTC ({earliest} to {latest})"
        )
    front = [one for one in document.alternatives if one.target is None]
    if front:
        table = Table("sizes", "TTFT p50", "TTFT p90", "cost an hour", "", title="What else could be had")
        for choice in front:
            sizes = [
                f"{tier.value.upper()} {format_bytes(held)}" for tier, held in choice.capacity_bytes.items()
            ]
            sizes += [f"{name}={value}" for name, value in choice.engine.items()]
            table.add_row(
                escape(", ".join(sizes)),
                _seconds(choice.ttft_p50_seconds),
                _seconds(choice.ttft_p90_seconds),
                _cost(choice.cost_per_hour, currency),
                "knee" if choice.is_knee else "",
            )
        yield table
    if document.instances:
        yield _instances(document.instances, currency)


def _instances(instances: Iterable[InstanceChoice], currency: str | None) -> Table:
    table = Table("instance type", "TTFT asked for", "reached", "cost an hour", "missing")
    for one in instances:
        target = "" if one.ttft_target_seconds is None else format_seconds(one.ttft_target_seconds)
        reached = {True: "yes", False: "no", None: ""}[one.meets_target]
        missing = escape(", ".join(one.missing))
        table.add_row(escape(one.instance_type), target, reached, _cost(one.cost_per_hour, currency), missing)
    return table


def _evidence(document: Recommendation) -> str:
    evidence = document.evidence
    parts = [f"{evidence.requests:,} requests", f"{evidence.block_accesses:,} block accesses"]
    if evidence.completeness_ratio is not None:
        parts.append(f"{evidence.completeness_ratio:.2%} of the records")
    if evidence.holdout_mae is not None:
        parts.append(f"hold-out error {100 * evidence.holdout_mae:.1f} points of hit ratio")
    if evidence.routing_age_seconds is not None:
        parts.append(f"routers compared {format_seconds(evidence.routing_age_seconds)} before")
    return f"\nrests on {', '.join(parts)}"


def _written(step: Apply) -> str:
    if isinstance(step.document, dict) and step.format.value == "env":
        return "\n".join(f"{name}={value}" for name, value in step.document.items())
    line = json.dumps(step.document)
    return line if len(line) <= LONGEST_LINE else json.dumps(step.document, indent=2)


def _indented(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2))


def _size(value: float | str | None, unit: str) -> str:
    if isinstance(value, float | int) and unit == "bytes":
        return format_bytes(value)
    return "" if value is None else f"{value} {unit}"


def _ratio(estimate: Estimate) -> str:
    return f"{estimate.value:.1%} ({estimate.low:.1%} to {estimate.high:.1%})"


def _seconds(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not known"
    ends = f"{format_seconds(estimate.low)} to {format_seconds(estimate.high)}"
    return f"{format_seconds(estimate.value)} ({ends})"


def _cost(estimate: Estimate | None, currency: str | None) -> str:
    if estimate is None:
        return "not known"
    ends = "" if estimate.low == estimate.high else f" ({estimate.low:.4g} to {estimate.high:.4g})"
    return f"{estimate.value:.4g} {currency or ''}{ends}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
