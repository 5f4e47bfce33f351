"""`tierscope bench`: our figures next to the peers', on this machine, in this run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.cli.options import Json

if TYPE_CHECKING:
    from tierscope.cli.benches.rows import Row

    Bench = Callable[[], Iterator[Row]]


def bench(
    as_json: Json = False,
    only: Annotated[str | None, typer.Option("--only", help="One bench, by its name.")] = None,
) -> None:
    """Print our figures next to the peers': same machine, same work, same run."""
    from tierscope.cli.output import print_json, stderr

    found = benches()
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


def benches() -> dict[str, Bench]:
    """Every bench by name; a new one is a function in its room's file and a line here."""
    from tierscope.cli.benches import analytics, exporters

    return {
        "page_parser": exporters.page_parser,
        "event_decoder": exporters.event_decoder,
        "chain_kernel": analytics.chain_kernel,
    }


def _print_table(rows: list[Row]) -> None:
    from rich.table import Table

    from tierscope.cli.output import stdout

    table = Table("what", "ours", "unit", "peer", "times the peer's")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:,.1f}"
        table.add_row(row.what, f"{row.value:,.2f}", row.unit, row.peer or "none", ratio)
    stdout.print(table)
