"""`tierscope doctor`: is it wired right, source by source, and which numbers can be trusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from tierscope.cli.options import Config, Json
from tierscope.domain.severity import Severity

if TYPE_CHECKING:
    from tierscope.cli.doctor_check import Check

FINDINGS_STATUS = 3
"""Exit status where something is at or above --fail-on."""
COLOURS = {None: "green", Severity.INFO: "blue", Severity.WARNING: "yellow", Severity.CRITICAL: "red"}


def doctor(
    config: Config,
    fail_on: Annotated[
        Severity, typer.Option("--fail-on", help="Exit with 3 from this severity on.")
    ] = Severity.CRITICAL,
    as_json: Json = False,
) -> None:
    """Check what the settings name, source by source, and say which numbers can be trusted."""
    import time

    from tierscope.cli.doctor_checks import checks
    from tierscope.cli.output import print_json, stdout
    from tierscope.cli.settings_file import load_settings

    settings = load_settings(config)
    found = list(checks(settings, now_unix_seconds=time.time()))
    if as_json:
        print_json({"checks": [check.to_json() for check in found]})
    else:
        stdout.print(_table(found))
    order = list(Severity)
    if any(check.severity and order.index(check.severity) >= order.index(fail_on) for check in found):
        raise typer.Exit(FINDINGS_STATUS)


def _table(checks: Iterable[Check]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "source", "what was found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        mark = f"[{COLOURS[check.severity]}]{check.severity or 'ok'}[/]"
        table.add_row(mark, escape(check.source), escape(check.says), escape(check.fix or ""))
    return table
