"""`tierscope bench`: our figures next to the peers', on this machine, in this run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.cli.options import BlockTokens, Json, SpreadHours, SpreadSeed

if TYPE_CHECKING:
    from tierscope.cli.benches.rows import Row
    from tierscope.domain.trace import Trace

    Bench = Callable[[], Iterator[Row]]


def bench(
    as_json: Json = False,
    only: Annotated[str | None, typer.Option("--only", help="One bench, by its name.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="Trace for analytics, simulator and chains; else a generated one."),
    ] = None,
    spread_hours: SpreadHours = None,
    seed: SpreadSeed = 1,
    block_tokens: BlockTokens = None,
) -> None:
    """Print our figures next to the peers': same machine, same work, same run."""
    from tierscope.cli.output import print_json, stderr

    found = benches(_requests(trace, spread_hours, seed, block_tokens))
    if only is not None and only not in found:
        raise typer.BadParameter(f"--only {only}: there are {', '.join(found)}")
    rows: list[Row] = []
    for name, measure in found.items():
        if only in (None, name):
            stderr.print(f"measuring {name} …", markup=False)
            rows += measure()
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        _print_table(rows)


def benches(trace: Trace) -> dict[str, Bench]:
    """Every bench by name; a new one is a function in its room's file and a line here."""
    from tierscope.cli.benches import analytics, chains, costs, exporters, simulator, storage

    return {
        "page_parser": exporters.page_parser,
        "event_decoder": exporters.event_decoder,
        "curve": partial(analytics.curve_and_peer, trace),
        "hit_split": partial(simulator.hit_split, trace),
        "ttft": partial(simulator.time_to_first_token, trace),
        "policies": partial(simulator.eviction_policies, trace),
        "stored_mix": storage.stored_mix,
        "stored_wire": storage.stored_wire,
        "stored_frames": storage.stored_frames,
        "stored_events": storage.stored_events,
        "stored_chains": partial(chains.stored_chains, trace),
        "stored_bytes": partial(chains.stored_bytes, trace),
        "costs": costs.costs,
    }


def _requests(path: Path | None, spread_hours: float | None, seed: int, block_tokens: int | None) -> Trace:
    """The trace that analytics, simulator and the store's chains are measured on."""
    from tierscope.cli.benches.generated import generated_trace
    from tierscope.cli.spread import spread
    from tierscope.traces.open import read_trace

    if path is None:
        return generated_trace()
    return spread(read_trace(path, block_tokens=block_tokens), spread_hours, seed)


def _print_table(rows: list[Row]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    table = Table("what", "ours", "unit", "peer", "times the peer's")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:,.1f}"
        table.add_row(row.what, f"{row.value:,.2f}", row.unit, row.peer or "none", ratio)
    stdout.print(table)
