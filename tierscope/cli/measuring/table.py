"""A measurement's document for people, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tierscope.cli.measuring.plan import Stage
from tierscope.domain.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from tierscope.cli.measuring.summary import Document


def print_document(document: Document, console: Console) -> None:
    """Print the sweep as a table, and what it comes to below."""
    from rich.table import Table

    table = Table(
        "prompt tokens",
        *(f"{stage.value} TTFT" for stage in Stage),
        "L2 times faster",
        "published (A10G)",
        title="Median TTFT with the 95 % interval of the median",
    )
    for row in document["lengths"]:
        published = row["published_speedup"]
        table.add_row(
            f"{row['prompt_tokens']:,}",
            *(_seconds(row[stage.value]["ttft_seconds"]) for stage in Stage),
            _ratio(row[Stage.L2.value]["speedup"]),
            "" if published is None else f"{published:.2f}",
        )
    console.print(table)
    for line in lines(document):
        console.print(line, markup=False, soft_wrap=True)


def lines(document: Document) -> Iterator[str]:
    """Yield what the sweep comes to, each beside the published figure where there is one."""
    yield from _hit_lines(document)
    best = document["best_speedup"]
    if best is not None:
        yield (
            f"best from L2: {best['value']:.2f} times faster than cold, at {best['prompt_tokens']:,} tokens; "
            "published: up to 2.70 (A10G)"
        )
    yield from _load_lines(document)
    yield f"break-even: {_break_even(document['break_even_tokens'])}"
    for stage, why in document["left_out"].items():
        yield f"{stage} was not measured: {why}"
    for stray in document["not_as_meant"]:
        yield (
            f"left out of the figures: {stray['timings']} timings meant for {stray['stage']}, "
            f"served from {stray['served_from'] or 'nobody knows where'}"
        )
    if document["disturbed"]:
        yield f"{document['disturbed']} prompts could not be told from other traffic"
    if document["tokens_differ"]:
        yield f"the engine's cached_tokens and the split differ by {document['tokens_differ']:,} tokens"


def _hit_lines(document: Document) -> Iterator[str]:
    hits, published = document["cross_replica"], document["published"]["verification"]
    if hits["token_hit_ratio"] is None:
        return
    chunks = "" if hits["chunk_hit_ratio"] is None else f", {hits['chunk_hit_ratio']:.1%} of whole chunks"
    unknown = " – of which tier, nobody told: give --exporter or --cache-url"
    yield (
        f"cross-replica hits: {hits['hit_tokens']:,} of {hits['asked_tokens']:,} tokens "
        f"({hits['token_hit_ratio']:.1%}){chunks}; published: {published['cross_replica_hit_ratio']:.0%}"
        f"{'' if hits['tier_known'] else unknown}"
    )


def _load_lines(document: Document) -> Iterator[str]:
    load, verified = document["l2_load"], document["published"]["verification"]
    published = (
        f"published: {format_seconds(verified['load_seconds'])} for {verified['prompt_tokens']:,} tokens, "
        f"{format_bytes(verified['load_bytes_per_second'])}/s"
    )
    if load["bytes_per_second"] is not None:
        yield (
            f"L2 loads: {format_bytes(load['bytes'])} in {format_seconds(load['seconds'])}, "
            f"{format_bytes(load['bytes_per_second'])}/s; {published}"
        )
    elif load["seconds_per_request_beyond_l0"] is not None:
        speed = load["bytes_per_second_beyond_l0"]
        rate = "" if speed is None else f", {format_bytes(speed)}/s"
        beyond = format_seconds(load["seconds_per_request_beyond_l0"])
        yield f"L2 costs {beyond} a request beyond L0{rate}; {published}"


def _break_even(crossing: Document | None) -> str:
    if crossing is None:
        return "L2 does not get ahead as prompts grow"
    high = "never" if crossing["high"] is None else f"{crossing['high']:,.0f}"
    return f"L2 is faster from {crossing['value']:,.0f} tokens on ({crossing['low'] or 0:,.0f} to {high})"


def _seconds(estimate: Document | None) -> str:
    if estimate is None:
        return "–"
    low, high = (format_seconds(estimate[end]) for end in ("low", "high"))
    return f"{format_seconds(estimate['value'])} ({low} – {high})"


def _ratio(estimate: Document | None) -> str:
    if estimate is None:
        return "–"
    return f"{estimate['value']:.2f} ({estimate['low']:.2f} – {estimate['high']:.2f})"
