"""A board from sections of panels, as sorted and stable classic dashboard JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards.panels import Panel
from dashboards.variables import board_variables

GRID_COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Section:
    """A row of panels under a heading, sharing its width equally; `height` is in grid units of 30 pixels."""

    title: str
    panels: Sequence[Panel]
    height: int = 8


def board(uid: str, title: str, description: str, sections: Sequence[Section]) -> str:
    """Lay the sections out from top to bottom and render the board; ids count up in reading order."""
    dashboard = (
        Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["tierscope"])
        .readonly()
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
    )
    for variable in board_variables():
        dashboard.with_variable(variable)
    next_id = 1
    for section in sections:
        dashboard.with_row(Row(section.title).id(next_id))
        for offset, panel in enumerate(section.panels, start=1):
            panel.id(next_id + offset).height(section.height).span(GRID_COLUMNS // len(section.panels))
            dashboard.with_panel(panel)
        next_id += 1 + len(section.panels)
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(dashboard.build()) + "\n"
