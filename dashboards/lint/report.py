"""All checks together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dashboards.boards import BOARDS
from dashboards.lint.boards import board_problems
from dashboards.lint.names import spelled_names
from dashboards.lint.rules import rule_problems
from dashboards.rules.render import GROUPS, recordings


def problems(root: Path) -> Iterator[str]:
    """Every problem of every board and rule, and of the source text of the packages under `root`."""
    for uid, render in BOARDS.items():
        yield from board_problems(uid, render(), recordings())
    yield from rule_problems(GROUPS)
    yield from spelled_names(root)
