"""What the command line prints: one JSON document on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rich.console import Console

from tierscope.domain.errors import TierscopeError

stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def print_error(error: TierscopeError) -> None:
    """Print what, where and fix on stderr."""
    stderr.print(str(error), style="red", markup=False, soft_wrap=True)


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout, and nothing else there."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
