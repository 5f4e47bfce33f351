"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path, typer.Option("--config", help="Settings file (YAML); docs/reference/settings.md lists every field.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Lifeline = Annotated[bool, typer.Option("--lifeline", hidden=True, help="Stop when stdin ends.")]
