"""`tierscope store`: what is done with a store's file beside collecting into it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Look after an event store.")

File = Annotated[Path, typer.Argument(help="The store's file.", exists=True, dir_okay=False)]


@app.callback()
def store() -> None:
    """Look after an event store."""


@app.command()
def upgrade(path: File) -> None:
    """Bring a file that an earlier release wrote up to this one, as its collector would when it starts."""
    from tierscope.cli.output import stdout
    from tierscope.storage.schema import VERSION
    from tierscope.storage.store import Store

    Store.open(path, clock=time.time).close()
    stdout.print(f"{path} is of version {VERSION}", markup=False, highlight=False)
