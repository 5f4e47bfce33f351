"""Every board; a new one is its file and a line here."""

from __future__ import annotations

from collections.abc import Callable

from dashboards.boards.capacity import capacity_board
from dashboards.boards.engines import engines_board
from dashboards.boards.overview import overview
from dashboards.boards.pipeline import pipeline_board
from dashboards.boards.routing import routing_board
from dashboards.boards.tier import tier_board
from dashboards.boards.ttft import ttft_board
from tierscope.domain.tiers import Tier

BOARDS: dict[str, Callable[[], str]] = {
    "tierscope-overview": overview,
    **{f"tierscope-tier-{tier}": tier_board(tier) for tier in Tier},
    "tierscope-routing": routing_board,
    "tierscope-ttft": ttft_board,
    "tierscope-capacity": capacity_board,
    "tierscope-pipeline": pipeline_board,
    "tierscope-engines": engines_board,
}
"""A board's fixed uid, which is also its file's name, and what renders it as classic dashboard JSON."""
