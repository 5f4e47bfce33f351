"""Every board; a new one is its file and a line here."""

from __future__ import annotations

from collections.abc import Callable

from dashboards.boards.overview import overview

BOARDS: dict[str, Callable[[], str]] = {
    "tierscope-overview": overview,
}
"""A board's fixed uid, which is also its file's name, and what renders it as classic dashboard JSON."""
