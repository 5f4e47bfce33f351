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

BLOCK_TOKENS_HELP = "Tokens a block; else 512 for JSONL, and for Parquet the power of two that fits the rows."

TraceFile = Annotated[Path, typer.Argument(help="Mooncake JSONL (also .gz) or Parquet.")]
BlockTokens = Annotated[int | None, typer.Option("--block-tokens", min=1, help=BLOCK_TOKENS_HELP)]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out and count them.")]
SpreadHours = Annotated[
    float | None,
    typer.Option("--spread-sessions", min=0, help="Start the trace's sessions within so many hours."),
]
SpreadSeed = Annotated[int, typer.Option("--seed", min=0, help="Seed of --spread-sessions and of chance.")]
