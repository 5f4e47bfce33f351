"""The lint finds what is planted in a board, and nothing in the boards we ship."""

from __future__ import annotations

import json

import pytest

from dashboards.boards import BOARDS
from dashboards.lint.boards import board_problems, without_variables
from dashboards.rules.render import recordings
from tierscope.registry.metrics import COMPLETENESS, LOOKUP_TOKENS

UID = "tierscope-overview"


@pytest.mark.parametrize("uid", BOARDS)
def test_our_boards_are_in_order(uid):
    """Every board passes every check."""
    assert list(board_problems(uid, BOARDS[uid](), recordings())) == []


def planted(change) -> str:
    """Problems of the overview after a change to its second panel, the first below a heading."""
    document = json.loads(BOARDS[UID]())
    panel = next(panel for panel in document["panels"] if panel["type"] != "row")
    change(document, panel)
    return "; ".join(board_problems(UID, json.dumps(document), recordings()))


def expr(text: str, legend: str = "x"):
    """A change of a panel's query."""

    def change(_, panel):
        panel["targets"][0].update(expr=text, legendFormat=legend)

    return change


def marked(**fields):
    """A change of the board's annotation."""
    return lambda board, _: board["annotations"]["list"][0].update(fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda board, _: board.update(uid="x"), "its uid is 'x'"),
        (lambda board, _: board.pop("uid"), "its uid is None"),
        (lambda _, panel: panel.update(id=1), "2 panels have the id 1"),
        (lambda _, panel: panel.update(title=""), "it has no title"),
        (lambda _, panel: panel.update(description="Hits."), "does not state a question"),
        (lambda _, panel: panel["fieldConfig"]["defaults"].pop("unit"), "it has no unit"),
        (lambda _, panel: panel["fieldConfig"]["defaults"].pop("noValue"), "why it may be empty"),
        (lambda _, panel: panel["fieldConfig"]["defaults"].update(unit="si:messages/s"), "for a scale"),
        (lambda _, panel: panel.update(targets=[]), "it asks nothing"),
        (expr(f"sum(rate({LOOKUP_TOKENS.name}[$__interval]))"), "its window is not $__rate_interval"),
        (expr(f"sum(rate({LOOKUP_TOKENS.name}[${{__range}}]))"), "its window is not $__rate_interval"),
        (expr(f"sum(rate({LOOKUP_TOKENS.name}[5m]))"), "looks back a fixed"),
        (expr(f"sum({LOOKUP_TOKENS.name})"), "counter read without a rate"),
        (
            expr(f'sum({LOOKUP_TOKENS.name}{{result="hit"}}) / sum({LOOKUP_TOKENS.name})'),
            "a figure of its whole lifetime",
        ),
        (expr("sum(rate(vllm:gpu_prefix_cache_hit_total[$__rate_interval]))"), "nothing publishes"),
        (expr(f"sum({COMPLETENESS.name})"), "it adds up ratios"),
        (marked(expr=f"sum({LOOKUP_TOKENS.name})"), "annotation 'TTFT regressions': "),
        (marked(textFormat="{{culprit}}"), "it shows culprit, which the result does not have"),
        (marked(tagKeys="cause,culprit"), "it shows culprit, which the result does not have"),
        (marked(titleFormat=""), "it says nothing"),
        (marked(expr=""), "it asks nothing"),
        (
            expr(f"sum by (tier) (rate({LOOKUP_TOKENS.name}[$__rate_interval]))", "{{pod}}"),
            "its legend names pod",
        ),
    ],
)
def test_a_planted_fault_is_found(change, words):
    """UD-20, UD-21, UD-22: each leaves the reader of a board with nothing, or with a wrong number."""
    assert words in planted(change)


def test_variables_stand_for_everything():
    """What remains is PromQL that a parser and a Prometheus accept."""
    assert without_variables('rate(x{a=~"$namespace/${endpoint}/.*"}[$__rate_interval])') == (
        'rate(x{a=~".*/.*/.*"}[253s])'
    )
