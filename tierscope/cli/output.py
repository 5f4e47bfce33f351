"""What the command line prints: one JSON document on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from tierscope.domain.errors import TierscopeError

stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def open_closed_streams() -> None:
    """Point standard streams that we were started without at nothing.

    Else the next file that is opened, a store for instance, takes their place and is written to.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until we end


def print_error(error: TierscopeError) -> None:
    """Print what, where and fix on stderr."""
    stderr.print(str(error), style="red", markup=False, soft_wrap=True)


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout, and nothing else there."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
