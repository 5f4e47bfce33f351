"""Boards are what Grafana's own types say a dashboard is, in both forms."""

from __future__ import annotations

import copy
import json
from functools import cache

import jsonschema
import pytest

from dashboards.boards import BOARDS
from dashboards.v2 import API_VERSION, v2_form

PROMETHEUS_READS = ("expr", "step", "titleFormat", "textFormat", "tagKeys")
"""Of an annotation, where the data source is a Prometheus."""
each_board = pytest.mark.parametrize("uid", BOARDS)


@pytest.fixture
def problems(repository):
    """What a schema has against a document, as one text."""

    @cache
    def validator(name: str) -> jsonschema.Draft7Validator:
        text = (repository / f"tests/fixtures/grafana/{name}.schema.json").read_text("utf-8")
        return jsonschema.Draft7Validator(json.loads(text))

    def found(name: str, document: object) -> str:
        errors = validator(name).iter_errors(document)
        return "\n".join(f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors)

    return found


@each_board
@pytest.mark.parametrize("schema", ["classic-10.4", "classic"])
def test_the_classic_form_is_a_dashboard_of_old_and_new_grafana(problems, uid, schema):
    """Neither an unknown key nor a wrong type; no type has an annotation's query, which is its source's."""
    board = json.loads(BOARDS[uid]())
    for annotation in board.get("annotations", {}).get("list", []):
        assert {key for key in PROMETHEUS_READS if not isinstance(annotation.pop(key), str)} == set()

    assert problems(schema, board) == ""


@each_board
def test_the_second_form_is_a_dashboard_resource(problems, uid):
    """Its specification is complete; its name is the uid that links and alerts know."""
    resource = json.loads(v2_form(BOARDS[uid]()))

    assert problems("v2", resource["spec"]) == ""
    assert (resource["apiVersion"], resource["kind"]) == (API_VERSION, "Dashboard")
    assert resource["metadata"]["name"] == uid


def test_a_broken_board_is_refused(problems):
    """The schemas have teeth: a wrong type and an unknown key are found in either form."""
    classic = json.loads(BOARDS["tierscope-overview"]())
    second = json.loads(v2_form(json.dumps(classic)))["spec"]
    wrong, odd = copy.deepcopy(classic), copy.deepcopy(second)
    next(panel for panel in wrong["panels"] if panel["type"] != "row")["title"] = 7
    next(iter(odd["elements"].values()))["spec"]["titel"] = "x"

    assert "is not of type 'string'" in problems("classic", wrong) or "is not valid" in problems(
        "classic", wrong
    )
    assert problems("v2", odd)


@each_board
def test_both_forms_ask_the_same(uid):
    """Every query, title, unit and description of one is in the other, in the same rows."""
    classic, spec = json.loads(BOARDS[uid]()), json.loads(v2_form(BOARDS[uid]()))["spec"]
    panels = [panel for one in classic["panels"] for panel in (one, *one.get("panels", []))]
    asked = [panel for panel in panels if panel["type"] != "row"]
    elements = spec["elements"]

    assert len(elements) == len(asked)
    for panel in asked:
        element = elements[f"panel-{panel['id']}"]["spec"]
        queries = [one["spec"]["query"]["spec"]["expr"] for one in element["data"]["spec"]["queries"]]
        config = element["vizConfig"]["spec"]["fieldConfig"]["defaults"]
        assert (element["title"], element["description"]) == (panel["title"], panel["description"])
        assert queries == [target["expr"] for target in panel["targets"]]
        assert config["unit"] == panel["fieldConfig"]["defaults"]["unit"]
    rows = spec["layout"]["spec"]["rows"]
    assert [row["spec"]["title"] for row in rows] == [row["title"] for row in panels if row["type"] == "row"]
    placed = [
        item["spec"]["element"]["name"] for row in rows for item in row["spec"]["layout"]["spec"]["items"]
    ]
    assert sorted(placed) == sorted(elements)
    marks = classic.get("annotations", {}).get("list", [])
    assert [one["spec"]["query"]["spec"]["expr"] for one in spec["annotations"]] == [m["expr"] for m in marks]
