"""A board from sections of panels, as sorted and stable classic dashboard JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard, DashboardLink, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

from dashboards.panels import Panel
from dashboards.variables import Variable, board_variables

GRID_COLUMNS = 24
TAG = "tierscope"
NOT_OF_A_CHOICE = ("auto", "auto_min", "auto_count", "allowCustomValue")
"""What the SDK writes into every variable: for intervals alone, or not known to Grafana 10."""
NOT_OF_A_LINK = ("placement",)
"""The SDK puts every link into a menu that Grafana 10 does not know and later ones hide."""

NOT_OF_AN_ANNOTATION = (*NOT_OF_A_LINK, "builtIn")
"""What Grafana's own annotations have beside that."""


@dataclass(frozen=True, slots=True)
class Section:
    """A row of panels under a heading, sharing its width equally; `height` is in grid units of 30 pixels.

    `closed` asks nothing until a reader opens it: for what is heavy, or wanted rarely.
    """

    title: str
    panels: Sequence[Panel]
    height: int = 8
    closed: bool = False


def board(
    uid: str,
    title: str,
    description: str,
    sections: Sequence[Section],
    variables: Sequence[Variable] | None = None,
    annotation: AnnotationQuery | None = None,
) -> str:
    """Lay the sections out from top to bottom and render the board; ids count up in reading order."""
    dashboard = (
        Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_other_boards())
    )
    for variable in board_variables() if variables is None else variables:
        dashboard.with_variable(variable)
    if annotation is not None:
        dashboard.annotation(annotation)
    next_id = 1
    for section in sections:
        row = Row(section.title).id(next_id)
        for offset, panel in enumerate(section.panels, start=1):
            panel.id(next_id + offset).height(section.height).span(GRID_COLUMNS // len(section.panels))
            if section.closed:
                row.with_panel(panel)
        dashboard.with_row(row)
        if not section.closed:
            for panel in section.panels:
                dashboard.with_panel(panel)
        next_id += 1 + len(section.panels)
    return rendered(_as_grafana_has_it(json.loads(JSONEncoder().encode(dashboard.build()))))


def rendered(document: Mapping[str, Any]) -> str:
    """A board's JSON, sorted, so that a diff shows what changed and nothing else."""
    return json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def _other_boards() -> DashboardLink:
    """The way to every other board, with the time and what was chosen."""
    return (
        DashboardLink("Tierscope")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .icon("external link")
        .tooltip("The other boards, with this time and these choices")
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _as_grafana_has_it(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what the SDK writes and not every Grafana's types know."""
    panels = [one for panel in document["panels"] for one in (panel, *panel.get("panels", []))]
    links = [link for one in (document, *panels) for link in one.get("links", [])]
    marked = document.get("annotations", {}).get("list", [])
    for found, keys in (
        (document["templating"]["list"], NOT_OF_A_CHOICE),
        (links, NOT_OF_A_LINK),
        (marked, NOT_OF_AN_ANNOTATION),
    ):
        for one in found:
            for key in keys:
                one.pop(key, None)
    return document
