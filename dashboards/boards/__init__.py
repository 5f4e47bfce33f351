"""Every board; a new one is its file and a line here."""

from __future__ import annotations

from collections.abc import Callable

from dashboards.boards.overview import overview
from dashboards.boards.tier import tier_board
from tierscope.domain.tiers import Tier

BOARDS: dict[str, Callable[[], str]] = {
    "tierscope-overview": overview,
    **{f"tierscope-tier-{tier}": tier_board(tier) for tier in Tier},
}
"""A board's fixed uid, which is also its file's name, and what renders it as classic dashboard JSON."""
