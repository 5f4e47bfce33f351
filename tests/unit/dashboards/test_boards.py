"""What every board promises its reader."""

from __future__ import annotations

import json
import re

import pytest

from dashboards.boards import BOARDS
from dashboards.lint.boards import read_board
from dashboards.rules.recording import LONGER_WINDOWS, TENANT_RATE
from tierscope.registry.engine_metrics import ENGINE_METRICS
from tierscope.registry.metrics import METRICS


def panels_of(document: dict) -> list[dict]:
    """Rows and panels in reading order, those of closed rows after their row."""
    return [one for panel in document["panels"] for one in (panel, *panel.get("panels", []))]


ENGINES = "tierscope-engines"
WITH_TENANTS = "tierscope-overview"
"""What can be chosen there is what a recorded series holds: it is bounded, the tenants are not."""
ENGINES_CHOICES = ("namespace", "model_name", "instance")
each_board = pytest.mark.parametrize("uid", BOARDS)


@each_board
def test_a_panel_asks_a_question_of_the_table(uid):
    """The description begins with the `answers` of a row."""
    answers = tuple(metric.answers for metric in (*METRICS, *ENGINE_METRICS))

    for panel in read_board(BOARDS[uid]()).every_panel:
        assert panel.type == "row" or panel.description.startswith(answers), panel.title


@each_board
def test_every_query_goes_to_the_data_source_the_reader_chose(uid):
    """No panel, target or variable names a data source of ours."""
    document = json.loads(BOARDS[uid]())
    asked = [panel for panel in panels_of(document) if panel["type"] != "row"]
    asked += [target for panel in asked for target in panel["targets"]]
    asked += [variable for variable in document["templating"]["list"] if variable["type"] == "query"]
    asked += document.get("annotations", {}).get("list", [])

    assert {json.dumps(one["datasource"], sort_keys=True) for one in asked} == {
        '{"type": "prometheus", "uid": "${datasource}"}'
    }


@each_board
def test_a_reader_may_choose_from_the_cluster_down_to_the_replica(uid):
    """Each choice narrows the ones after it, and starts at everything. Engines know no endpoints."""
    variables = json.loads(BOARDS[uid]())["templating"]["list"]
    choices = ENGINES_CHOICES if uid == ENGINES else ("namespace", "endpoint", "model", "replica")
    if uid == WITH_TENANTS:
        *variables, tenant = variables
        assert tenant["name"] == "tenant"
        assert re.findall(r"\$(\w+)", tenant["query"]) == ["cluster", "namespace", "endpoint"]
        assert tenant["query"].startswith(f"label_values({TENANT_RATE.record}{{")

    assert [variable["name"] for variable in variables] == ["datasource", "cluster", *choices]
    for position, variable in enumerate(variables[1:], start=1):
        chosen_before = [other["name"] for other in variables[1:position]]
        assert re.findall(r"\$(\w+)", variable["query"]) == chosen_before
        assert variable["allValue"] == ".*"
        assert variable["current"]["value"] == "$__all"


@each_board
def test_tiers_come_in_the_order_a_prompt_travels(uid):
    """Panels of tiers stand L0, L1, L2, and so do the origins a panel asks for."""
    panels = read_board(BOARDS[uid]()).every_panel

    for prefix in {panel.title[3:] for panel in panels if re.match(r"L\d ", panel.title)}:
        tiers = [panel.title[:2] for panel in panels if panel.title[2:] == f" {prefix}"]
        assert tiers == ["L0", "L1", "L2"]


@each_board
def test_panels_fill_the_grid_without_overlapping(uid):
    """Grafana would move them about otherwise."""
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(BOARDS[uid]())["panels"]:
        place = panel["gridPos"]
        x, y, width, height = (place.get(key, 0) for key in ("x", "y", "w", "h"))
        cells = {(x + i, y + j) for i in range(width) for j in range(height)}
        assert x + width <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@each_board
def test_an_origin_has_one_name_and_colour_on_every_panel(uid):
    """Green is L0 wherever one looks."""
    looks: dict[str, set[str]] = {}
    for panel in panels_of(json.loads(BOARDS[uid]())):
        for override in panel.get("fieldConfig", {}).get("overrides", []):
            if override["matcher"]["options"] != "computed":
                looks.setdefault(override["matcher"]["options"], set()).add(
                    json.dumps(override["properties"])
                )

    assert looks
    assert all(len(look) == 1 for look in looks.values())


@each_board
def test_the_json_is_sorted(uid):
    """A diff of the generated file shows what changed and nothing else."""
    text = BOARDS[uid]()

    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@each_board
def test_links_lead_to_boards_that_exist_with_time_and_choices(uid):
    """A link without them would show another hour of everything."""
    document = json.loads(BOARDS[uid]())
    links = [link["url"] for panel in panels_of(document) for link in panel.get("links", [])]

    for url in links:
        path, _, parameters = url.partition("?")
        assert path.removeprefix("/d/") in set(BOARDS) - {uid}
        assert parameters == "${__url_time_range}&${__all_variables}"
    (others,) = document["links"]
    assert (others["type"], others["tags"]) == ("dashboards", document["tags"])
    assert others["keepTime"]
    assert others["includeVars"]


def test_every_board_is_one_step_from_the_overview_or_from_one_it_leads_to():
    """Whoever begins at the overview finds the rest without knowing their names."""
    ways = {
        uid: {
            link["url"].partition("?")[0].removeprefix("/d/")
            for panel in panels_of(json.loads(render()))
            for link in panel.get("links", [])
        }
        for uid, render in BOARDS.items()
    }
    first = ways["tierscope-overview"]

    assert first | {far for near in first for far in ways[near]} >= set(BOARDS) - {"tierscope-overview"}


@each_board
def test_a_panel_that_is_empty_says_why_in_its_own_words(uid):
    """Nowhere stands Grafana's bare `No data`, and nowhere a 0 that nobody counted."""
    for panel in panels_of(json.loads(BOARDS[uid]())):
        if panel["type"] != "row":
            assert len(panel["fieldConfig"]["defaults"]["noValue"].split()) >= 4, panel["title"]
            assert not any(" or vector(0)" in target["expr"] for target in panel["targets"]), panel["title"]


@each_board
def test_panels_that_name_replicas_or_holders_name_a_few(uid):
    """At five hundred replicas a panel is still read: single ones come only from topk and bottomk."""
    for panel in panels_of(json.loads(BOARDS[uid]())):
        for target in panel.get("targets", []):
            if uid != ENGINES and re.search(r"{{(replica|source)}}", target["legendFormat"]):
                assert re.match(r"(topk|bottomk)\(\d+, ", target["expr"]), panel["title"]


@each_board
def test_our_metrics_and_the_engines_own_are_on_boards_of_their_own(uid):
    """Where nothing of ours runs the engines' board is whole; no other board rests on what engines rename."""
    engines = [f"{name}{end}" for row in ENGINE_METRICS for name in row.names for end in ("{", "_")]
    for panel in panels_of(json.loads(BOARDS[uid]())):
        for target in panel.get("targets", []):
            theirs = any(name in target["expr"] for name in engines)
            assert theirs == (uid == ENGINES), target["expr"]
            assert ("tierscope" in target["expr"]) == (uid != ENGINES), target["expr"]


@each_board
def test_raw_series_are_looked_at_over_grafanas_own_window(uid):
    """UD-21: with a scrape a minute, a window of a fixed half minute would find one sample and no rate."""
    for panel in panels_of(json.loads(BOARDS[uid]())):
        for target in panel.get("targets", []):
            for series, window in re.findall(r"([\w:]+)(?:{[^{}]*})?\[([^\]]+)\]", target["expr"]):
                raw = ":" not in series.removeprefix("vllm:").removeprefix("lmcache:")
                assert window == "$__rate_interval" if raw else window in LONGER_WINDOWS, target["expr"]


@pytest.mark.parametrize("uid", set(BOARDS) - {ENGINES, "tierscope-capacity", "tierscope-pipeline"})
def test_a_board_of_endpoints_marks_their_regressions(uid):
    """Of the endpoints chosen, with who did it."""
    (annotation,) = json.loads(BOARDS[uid]())["annotations"]["list"]

    assert re.findall(r"\$(\w+)", annotation["expr"]) == ["cluster", "namespace", "endpoint"]
    assert annotation["enable"]
    assert {"cause", "tier", "reason", "since"} <= set(re.findall(r"{{(\w+)}}", annotation["textFormat"]))
