"""What lies ahead and what else could be had: when tiers fill up, other sizes, other instance types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierscope.advice.document import Alternative, InstanceChoice, Recommendation
from tierscope.advice.predictions import Estimate
from tierscope.domain.tiers import Tier
from tierscope.report.markup import Child, el, table
from tierscope.report.words import NOT_KNOWN, SPACE, estimate_ratio, estimate_seconds, seconds, size, time


def ahead(found: Recommendation) -> Iterator[Child]:
    """Forecasts, alternatives and instance types, as far as the document has them."""
    for one in found.forecasts:
        full, earliest, latest = (time(at.timestamp()) for at in (one.full_at, one.earliest, one.latest))
        hourly = size(one.growth_bytes_per_hour.value)
        yield el(
            "p",
            f"{one.tier.value.upper()} ({one.holder}) is full on {full}, between {earliest} and {latest}, if "
            f"it goes on growing by {hourly} an hour.",
        )
    currency = found.current.currency
    if found.alternatives:
        yield table(
            "Other choices",
            ("sizes", "tokens from any cache", "median TTFT", "TTFT, 9 of 10 are faster", "an hour", ""),
            (_alternative(one, currency) for one in found.alternatives),
        )
    if found.instances:
        yield table(
            "Instance types at the same TTFT, with as many replicas",
            ("type", "TTFT asked for", "reached", "sizes", "TTFT, 9 of 10 are faster", "an hour"),
            (_instance(one, currency) for one in found.instances),
        )


def cost(value: Estimate | None, currency: str | None) -> str:
    """What an hour costs, with the ends of its interval where they differ."""
    if value is None:
        return NOT_KNOWN
    ends = "" if value.low == value.high else f" ({value.low:.2f} to {value.high:.2f})"
    return f"{value.value:.2f} {currency or ''}{ends}".strip()


def _sizes(sizes: Mapping[Tier, float], arguments: Mapping[str, str] | None = None) -> str:
    # A tier and its size are not parted at the end of a line.
    parts = [f"{tier.value.upper()}{SPACE}{size(held)}" for tier, held in sizes.items()]
    return ", ".join([*parts, *(f"{name}={value}" for name, value in (arguments or {}).items())])


def _alternative(one: Alternative, currency: str | None) -> tuple[str, ...]:
    if one.is_knee:
        note = "knee"
    else:
        note = "" if one.target is None else f"{one.target:.0%} of the hit ratio of unlimited sizes"
    return (
        _sizes(one.capacity_bytes, one.engine),
        estimate_ratio(one.hit_ratio),
        estimate_seconds(one.ttft_p50_seconds),
        estimate_seconds(one.ttft_p90_seconds),
        cost(one.cost_per_hour, currency),
        note,
    )


def _instance(one: InstanceChoice, currency: str | None) -> tuple[str, ...]:
    name = f"{one.instance_type} (now)" if one.is_current else one.instance_type
    reached = {True: "yes", False: "no", None: NOT_KNOWN}[one.meets_target]
    if one.missing:
        return (name, seconds(one.ttft_target_seconds), f"missing: {', '.join(one.missing)}", "", "", "")
    return (
        name,
        seconds(one.ttft_target_seconds),
        reached,
        _sizes(one.capacity_bytes),
        estimate_seconds(one.ttft_p90_seconds),
        cost(one.cost_per_hour, currency),
    )
