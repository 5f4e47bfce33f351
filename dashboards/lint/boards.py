"""Checks of rendered boards: what Grafana would show as an empty, unnamed or unitless panel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cache

import msgspec
import promql_parser

from dashboards.boards import BOARDS
from dashboards.lint.expressions import ExpressionCheck
from dashboards.promql import RATE_INTERVAL
from dashboards.rules.recording import LONGER_WINDOWS
from dashboards.rules.types import Recording

WINDOW_SECONDS = 253
"""Stands for $__rate_interval while an expression is checked; no one would write it by hand."""

OTHER_WINDOWS = re.compile(r"\$__(interval|range)|\$\{__(interval|range)")
VARIABLE = re.compile(r"\$\{?[a-z]\w*\}?")
SCALED = re.compile("si:[afpnµumkKMGTPEZY]")
LEGEND_LABEL = re.compile(r"{{\s*(\w+)\s*}}")


class Target(msgspec.Struct):
    """A panel's query."""

    expr: str
    legend: str = msgspec.field(name="legendFormat", default="")


class Defaults(msgspec.Struct):
    """How a panel's values are written."""

    unit: str = ""
    no_value: str = msgspec.field(name="noValue", default="")


class FieldConfig(msgspec.Struct):
    """The part of a panel that holds its defaults."""

    defaults: Defaults = msgspec.field(default_factory=Defaults)


class Link(msgspec.Struct):
    """A way to another board."""

    url: str = ""


class Panel(msgspec.Struct):
    """A panel or a row of a board."""

    type: str
    id: int = 0
    title: str = ""
    description: str = ""
    targets: list[Target] = []
    field_config: FieldConfig = msgspec.field(name="fieldConfig", default_factory=FieldConfig)
    links: list[Link] = []
    panels: list[Panel] = []
    """Those of a row that is closed."""


class Annotation(msgspec.Struct):
    """What is marked on every panel."""

    name: str
    expr: str = ""
    title: str = msgspec.field(name="titleFormat", default="")
    text: str = msgspec.field(name="textFormat", default="")
    tags: str = msgspec.field(name="tagKeys", default="")

    @property
    def labels(self) -> set[str]:
        """The labels it shows."""
        return {*LEGEND_LABEL.findall(self.title + self.text), *filter(None, self.tags.split(","))}


class Annotations(msgspec.Struct):
    """Those of a board."""

    every: list[Annotation] = msgspec.field(name="list", default_factory=list)


class Board(msgspec.Struct):
    """What we check of Grafana's classic dashboard JSON; the rest is passed over."""

    uid: str | None = None
    title: str = ""
    panels: list[Panel] = []
    annotations: Annotations = msgspec.field(default_factory=Annotations)

    @property
    def every_panel(self) -> list[Panel]:
        """Rows and panels in reading order, those of closed rows after their row."""
        return [one for panel in self.panels for one in (panel, *panel.panels)]


def read_board(text: str) -> Board:
    """The checked part of a board's JSON."""
    return msgspec.json.decode(text, type=Board)


@cache
def titles() -> frozenset[str]:
    """What stands above our boards, their rows and their panels."""
    boards = [read_board(render()) for render in BOARDS.values()]
    return frozenset(
        title for board in boards for title in (board.title, *(one.title for one in board.every_panel))
    )


def without_variables(expression: str) -> str:
    """An expression with Grafana's variables replaced by what they would stand for: everything."""
    return VARIABLE.sub(".*", expression.replace(RATE_INTERVAL, f"{WINDOW_SECONDS}s"))


def board_problems(uid: str, text: str, recordings: Sequence[Recording]) -> Iterator[str]:
    """Every problem of one board that should have this uid."""
    board = read_board(text)
    if board.uid != uid:
        yield f"{uid}: its uid is {board.uid!r}; links and alerts need the fixed one"
    for number, times in Counter(panel.id for panel in board.every_panel).items():
        if times > 1 or number <= 0:
            yield f"{uid}: {times} panels have the id {number}"
    longer = [promql_parser.parse_duration(window) for window in LONGER_WINDOWS]
    check = ExpressionCheck(recordings, timedelta(seconds=WINDOW_SECONDS), longer)
    for annotation in board.annotations.every:
        for problem in _annotation_problems(annotation, check):
            yield f"{uid}, annotation {annotation.name!r}: {problem}"
    for panel in board.every_panel:
        for problem in _panel_problems(panel, check):
            yield f"{uid}, panel {panel.title!r}: {problem}"


def _panel_problems(panel: Panel, check: ExpressionCheck) -> Iterator[str]:
    if not panel.title:
        yield "it has no title"
    if panel.type == "row":
        return
    if "?" not in panel.description:
        yield "its description does not state a question"
    if not panel.field_config.defaults.unit:
        yield "it has no unit"
    if SCALED.match(panel.field_config.defaults.unit):
        yield "Grafana takes the first letter of its unit for a scale"
    if not panel.field_config.defaults.no_value:
        yield "it does not say why it may be empty"
    if not panel.targets:
        yield "it asks nothing"
    for target in panel.targets:
        yield from _target_problems(target, check)


def _annotation_problems(annotation: Annotation, check: ExpressionCheck) -> Iterator[str]:
    if not annotation.expr:
        yield "it asks nothing"
        return
    if not annotation.title:
        yield "it says nothing"
    problems, labels = check.check(without_variables(annotation.expr))
    yield from (f"{problem}: {annotation.expr}" for problem in problems)
    if not problems:
        for label in sorted(annotation.labels - labels):
            yield f"it shows {label}, which the result does not have: {annotation.expr}"


def _target_problems(target: Target, check: ExpressionCheck) -> Iterator[str]:
    if OTHER_WINDOWS.search(target.expr):
        yield f"its window is not {RATE_INTERVAL}: {target.expr}"
        return
    problems, labels = check.check(without_variables(target.expr))
    yield from (f"{problem}: {target.expr}" for problem in problems)
    if not problems:
        for label in LEGEND_LABEL.findall(target.legend):
            if label not in labels:
                yield f"its legend names {label}, which the result does not have: {target.expr}"
