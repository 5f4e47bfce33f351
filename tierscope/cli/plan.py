"""`tierscope plan`: what it takes to run this at a given size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierscope.cli.options import Json
from tierscope.domain.units import GIB

if TYPE_CHECKING:
    from tierscope.planning.plan import Plan

HOURS_A_MONTH = 730.0


def plan(
    engines: Annotated[int, typer.Option("--engines", min=1, help="Engines (replicas) in all.")],
    qps: Annotated[float, typer.Option("--qps", min=0.0, help="Requests a second of each engine.")],
    prompt_tokens: Annotated[float, typer.Option(min=0.0, help="Mean tokens of a prompt.")] = 8_000.0,
    computed_ratio: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of prompt tokens that no tier has.")
    ] = 0.3,
    answer_tokens: Annotated[float, typer.Option(min=0.0, help="Mean tokens of an answer.")] = 300.0,
    block_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an engine's block.")] = 16,
    chunk_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a cache server's chunk.")] = 256,
    engines_a_node: Annotated[int, typer.Option(min=1, help="Engines on a node, and so on an exporter.")] = 8,
    keep_days: Annotated[
        float, typer.Option(min=0.0, help="Days that rows are kept before they are sums.")
    ] = 30.0,
    core_hour_price: Annotated[
        float | None, typer.Option(min=0.0, help="Price of a core for an hour; without it no cost is told.")
    ] = None,
    gib_month_price: Annotated[
        float | None, typer.Option(min=0.0, help="Price of a GiB of disk for a month; likewise.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print exporters, collectors, disk and network that so many engines take, from measured costs."""
    from tierscope.cli.output import print_json
    from tierscope.planning.plan import Workload
    from tierscope.planning.plan import plan as plan_for

    workload = Workload(
        engines,
        qps,
        prompt_tokens,
        computed_ratio,
        answer_tokens,
        block_tokens,
        chunk_tokens,
        engines_a_node,
    )
    document = _document(plan_for(workload), keep_days, core_hour_price, gib_month_price)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _document(
    found: Plan, keep_days: float, core_hour_price: float | None, gib_month_price: float | None
) -> dict[str, Any]:
    workload = found.workload
    stored_gib = found.stored_bytes(keep_days) / GIB
    cost = None
    if core_hour_price is not None and gib_month_price is not None:
        cost = found.cores * HOURS_A_MONTH * core_hour_price + stored_gib * gib_month_price
    return {
        "rates": {
            "requests_per_second": workload.admissions_a_second,
            "new_blocks_per_second": workload.new_blocks_a_second,
            "block_events_per_second": workload.block_events_a_second,
        },
        "exporters": {"count": workload.nodes, "cores_of_the_fullest": found.exporter_cores},
        "feed_bytes_per_second": found.feed_bytes_a_second,
        "stores": {
            "count": found.stores,
            "collector_cores_of_the_busiest": found.collector_cores,
            "catch_up_seconds_for_each_second_away": found.catch_up_ratio,
            "bytes_per_day": found.stored_bytes_a_day,
            "kept_days": keep_days,
            "kept_bytes": found.stored_bytes(keep_days),
        },
        "cores": found.cores,
        "cost_per_month": cost,
    }


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    rates, exporters, stores = (document[name] for name in ("rates", "exporters", "stores"))
    table = Table("what", "takes")
    table.add_row(
        "a second",
        f"{rates['requests_per_second']:,.0f} requests, {rates['new_blocks_per_second']:,.0f} new blocks, "
        f"{rates['block_events_per_second']:,.0f} block events",
    )
    table.add_row(
        "exporters",
        f"{exporters['count']:,}, one a node; that of the fullest uses "
        f"{exporters['cores_of_the_fullest']:.2f} cores",
    )
    table.add_row("feed", f"{document['feed_bytes_per_second'] / 1e6:,.1f} MB/s")
    table.add_row(
        "stores",
        f"{stores['count']:,}, each with one collector and some endpoints; the busiest uses "
        f"{stores['collector_cores_of_the_busiest']:.2f} cores and takes "
        f"{stores['catch_up_seconds_for_each_second_away']:.1f} s to catch up with a second away",
    )
    table.add_row(
        "disk",
        f"{stores['bytes_per_day'] / GIB:,.1f} GiB a day, {stores['kept_bytes'] / GIB:,.0f} GiB for "
        f"{stores['kept_days']:g} days",
    )
    cost = document["cost_per_month"]
    told = "give --core-hour-price and --gib-month-price" if cost is None else f"{cost:,.0f} a month"
    table.add_row("cores", f"{document['cores']:,.2f}, all exporters and collectors together")
    table.add_row("cost", told)
    stdout.print(table)
