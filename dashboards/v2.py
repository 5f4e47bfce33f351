"""The same boards in Grafana's second form of a dashboard, which Grafana 12 and later read as resources.

It is made from the classic form, so that the two cannot differ: panels become elements, rows hold a grid
each, and what a classic panel says beside its queries becomes its visualisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dashboards.layout import rendered

API_VERSION = "dashboard.grafana.app/v2"
Json = dict[str, Any]

NO_VARIABLE_HIDDEN = "dontHide"
REFRESH = {0: "never", 1: "onDashboardLoad", 2: "onTimeRangeChanged"}
SORT = {0: "disabled", 1: "alphabeticalAsc", 2: "alphabeticalDesc"}
LABEL_VALUES = 1
VARIABLE_REF_ID = "PrometheusVariableQueryEditor-VariableQuery"
"""What Grafana's own editor of Prometheus variables writes."""
ANNOTATION_KEYS = {"datasource", "enable", "hide", "iconColor", "name"}
"""Of every annotation; the rest is the data source's."""
CURSOR = {0: "Off", 1: "Crosshair", 2: "Tooltip"}


def v2_form(classic: str) -> str:
    """A board's classic JSON as a Dashboard resource of the second form."""
    board: Json = json.loads(classic)
    rows = list(_rows(board["panels"]))
    spec = {
        "annotations": [_annotation(one) for one in board.get("annotations", {}).get("list", [])],
        "cursorSync": CURSOR[board.get("graphTooltip", 0)],
        "description": board["description"],
        "editable": board["editable"],
        "elements": {_name(panel): _element(panel) for _, panels in rows for panel in panels},
        "layout": {"kind": "RowsLayout", "spec": {"rows": [_row(row, panels) for row, panels in rows]}},
        "links": board["links"],
        "preload": False,
        "tags": board["tags"],
        "timeSettings": {
            "autoRefresh": board["refresh"],
            "autoRefreshIntervals": ["5s", "10s", "30s", "1m", "5m", "15m", "30m", "1h", "2h", "1d"],
            "fiscalYearStartMonth": 0,
            "from": board["time"]["from"],
            "hideTimepicker": False,
            "timezone": board["timezone"],
            "to": board["time"]["to"],
        },
        "title": board["title"],
        "variables": [_variable(variable) for variable in board["templating"]["list"]],
    }
    metadata = {"name": board["uid"]}
    return rendered({"apiVersion": API_VERSION, "kind": "Dashboard", "metadata": metadata, "spec": spec})


def _rows(panels: list[Json]) -> Iterator[tuple[Json, list[Json]]]:
    """Every row with its panels, whether they stand in it or after it."""
    row: Json = {}
    held: list[Json] = []
    for panel in panels:
        if panel["type"] != "row":
            held.append(panel)
            continue
        if row:
            yield row, held
        row, held = panel, list(panel.get("panels", []))
    yield row, held


def _row(row: Json, panels: list[Json]) -> Json:
    top = min(panel["gridPos"].get("y", 0) for panel in panels)
    items = [
        {
            "kind": "GridLayoutItem",
            "spec": {
                "element": {"kind": "ElementReference", "name": _name(panel)},
                "height": panel["gridPos"]["h"],
                "width": panel["gridPos"]["w"],
                "x": panel["gridPos"].get("x", 0),
                "y": panel["gridPos"].get("y", 0) - top,
            },
        }
        for panel in panels
    ]
    layout = {"kind": "GridLayout", "spec": {"items": items}}
    spec = {"collapse": bool(row.get("collapsed")), "layout": layout, "title": row["title"]}
    return {"kind": "RowsLayoutRow", "spec": spec}


def _name(panel: Json) -> str:
    return f"panel-{panel['id']}"


def _element(panel: Json) -> Json:
    config = {
        "defaults": panel["fieldConfig"]["defaults"],
        "overrides": panel["fieldConfig"].get("overrides") or [],
    }
    spec = {
        "data": {
            "kind": "QueryGroup",
            "spec": {
                "queries": [_query(target) for target in panel["targets"]],
                "queryOptions": {},
                "transformations": [
                    {
                        "group": one["id"],
                        "kind": "Transformation",
                        "spec": {"options": one["options"]},
                    }
                    for one in panel.get("transformations", [])
                ],
            },
        },
        "description": panel["description"],
        "id": panel["id"],
        "links": [{"title": link["title"], "url": link["url"]} for link in panel.get("links", [])],
        "title": panel["title"],
        "vizConfig": {
            "group": panel["type"],
            "kind": "VizConfig",
            "spec": {"fieldConfig": config, "options": panel.get("options", {})},
            "version": "",
        },
    }
    return {"kind": "Panel", "spec": spec}


def _query(target: Mapping[str, Any]) -> Json:
    own = {key: value for key, value in target.items() if key not in {"datasource", "refId"}}
    spec = {"hidden": False, "query": _asked_of(target["datasource"], own), "refId": target["refId"]}
    return {"kind": "PanelQuery", "spec": spec}


def _asked_of(datasource: Mapping[str, str], spec: Json) -> Json:
    return {
        "datasource": {"name": datasource["uid"]},
        "group": datasource["type"],
        "kind": "DataQuery",
        "spec": spec,
        "version": "v0",
    }


def _annotation(annotation: Json) -> Json:
    """What the Prometheus data source reads of it is both its query and, as Grafana converts it, options."""
    own = {key: value for key, value in annotation.items() if key not in ANNOTATION_KEYS}
    spec = {
        "enable": annotation["enable"],
        "hide": annotation["hide"],
        "iconColor": annotation["iconColor"],
        "legacyOptions": own,
        "name": annotation["name"],
        "query": _asked_of(annotation["datasource"], {"expr": own["expr"], "refId": "Anno"}),
    }
    return {"kind": "AnnotationQuery", "spec": spec}


def _variable(variable: Json) -> Json:
    spec = {
        "allowCustomValue": True,
        "current": variable.get("current") or {"text": "", "value": ""},
        "hide": NO_VARIABLE_HIDDEN,
        "includeAll": bool(variable.get("includeAll")),
        "label": variable["label"],
        "multi": bool(variable.get("multi")),
        "name": variable["name"],
        "options": [],
        "regex": "",
        "skipUrlSync": False,
    }
    if variable["type"] == "datasource":
        spec |= {"pluginId": variable["query"], "refresh": REFRESH[1]}
        return {"kind": "DatasourceVariable", "spec": spec}
    asked = {"qryType": LABEL_VALUES, "query": variable["query"], "refId": VARIABLE_REF_ID}
    spec |= {
        "allValue": variable["allValue"],
        "definition": variable["query"],
        "query": _asked_of(variable["datasource"], asked),
        "refresh": REFRESH[variable["refresh"]],
        "sort": SORT[variable["sort"]],
    }
    return {"kind": "QueryVariable", "spec": spec}
