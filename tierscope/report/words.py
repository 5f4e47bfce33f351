"""Numbers and times as the report writes them, and the names of what it speaks of."""

from __future__ import annotations

from datetime import UTC, datetime

from tierscope.advice.document import Change
from tierscope.advice.predictions import Estimate
from tierscope.analytics.misses import Cause
from tierscope.domain.tiers import Origin, Tier
from tierscope.domain.units import format_bytes, format_seconds

NOT_KNOWN = "not known"
SPACE = "\u00a0"
"""Between a number and its unit, which stay on one line."""

ORIGINS = {
    Origin.L0: "L0, GPU memory",
    Origin.L1: "L1, host memory",
    Origin.L2: "L2, shared pool",
    Origin.EXTERNAL: "external, tier unknown",
    Origin.COMPUTED: "computed again",
}
TIERS = {
    Tier.L0: "L0, an engine's GPU memory",
    Tier.L1: "L1, a replica's host memory",
    Tier.L2: "L2, the pool",
}
CAUSES = {
    Cause.COMPULSORY: ("new", "Never seen before: nothing could have had it."),
    Cause.CAPACITY_L0: ("L0 too small", "It was there, and a larger L0 would still have it."),
    Cause.CAPACITY_L1: ("L1 too small", "It was there, and a larger L1 would still have it."),
    Cause.CAPACITY_L2: ("L2 too small", "It was there, and a larger pool would still have it."),
    Cause.ROUTING: ("wrong replica", "Another replica has it: the request was sent elsewhere."),
    Cause.ISOLATION: (
        "other name",
        "Another replica names the same blocks otherwise: another hash seed or salt.",
    ),
    Cause.GRANULARITY: ("part of a block", "Known, but only as a part of a block or chunk."),
    Cause.FAILURE: ("lost or refused", "A tier should have it by its size, and did not give it."),
    Cause.EXPIRY: ("expired", "Older than the pool keeps it."),
}


def ratio(value: float | None) -> str:
    """A share: 0.4213 -> '42.1 %', not broken."""
    return NOT_KNOWN if value is None else f"{100 * value:.1f}{SPACE}%"


def completeness(value: float | None) -> str:
    """A share that is 100 % only where nothing is missing."""
    if value is None:
        return NOT_KNOWN
    shown = f"{100 * value:.2f}"
    return f"{'99.99' if value < 1 and shown == '100.00' else shown}{SPACE}%"


def number(value: float) -> str:
    """A count: 12345 -> '12,345'."""
    return f"{value:,.0f}"


def counted(count: int, one: str) -> str:
    """A count and its noun: '1 replica', '3 replicas'."""
    return f"{number(count)} {one}{'' if count == 1 else 's'}"


def seconds(value: float | None) -> str:
    """A duration."""
    return NOT_KNOWN if value is None else format_seconds(value).replace(" ", SPACE)


def size(value: float | None) -> str:
    """A size."""
    return NOT_KNOWN if value is None else format_bytes(value).replace(" ", SPACE)


def time(at_unix_seconds: float) -> str:
    """A moment: '2026-11-29 23:05 UTC'."""
    return datetime.fromtimestamp(at_unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(seconds_ago: float) -> str:
    """How long it is since a moment: '3 min ago'."""
    for unit, name in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds_ago >= 2 * unit:
            return f"{seconds_ago / unit:.0f}{SPACE}{name}{SPACE}ago"
    return f"{max(seconds_ago, 0.0):.0f}{SPACE}s{SPACE}ago"


def span(start_unix_seconds: float, end_unix_seconds: float) -> str:
    """From one moment to another; the day is said once where it is one."""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (start_unix_seconds, end_unix_seconds))
    end = last.strftime("%H:%M UTC" if first.date() == last.date() else "%Y-%m-%d %H:%M UTC")
    return f"{first.strftime('%Y-%m-%d %H:%M')} to {end}"


def estimate_ratio(value: Estimate | None) -> str:
    """A predicted share and the ends of its interval."""
    if value is None:
        return NOT_KNOWN
    return f"{ratio(value.value)} ({100 * value.low:.1f} to {ratio(value.high)})"


def estimate_seconds(value: Estimate | None) -> str:
    """A predicted duration and the ends of its interval."""
    if value is None:
        return NOT_KNOWN
    return f"{seconds(value.value)} ({seconds(value.low)} to {seconds(value.high)})"


def quantity(value: float | str | None, unit: str) -> str:
    """What a change goes from or to."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float | int):
        return size(value) if unit == "bytes" else f"{value:g} {unit}".strip()
    return value


def what_changes(change: Change) -> str:
    """A change in one phrase: 'L1 from 2.0 MiB to 8.5 MiB'."""
    target = change.target.upper() if change.target in set(Tier) else change.target
    to = quantity(change.to, change.unit)
    return (
        f"{target} to {to}"
        if change.from_ is None
        else (f"{target} from {quantity(change.from_, change.unit)} to {to}")
    )
