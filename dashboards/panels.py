"""Panels with the look fixed once: every panel states its question, has a unit, and says why it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

from dashboards.variables import DATASOURCE
from tierscope.registry.types import Metric

RATIO = "percentunit"
SECONDS = "s"
TOKENS_PER_SECOND = "si:tokens/s"
BLOCKS_PER_SECOND = "si:blocks/s"
MESSAGES_PER_SECOND = "si:messages/s"
STATE = "bool_on_off"

NAMES_AND_COLORS = {
    "l0": ("L0 GPU memory", "green"),
    "l1": ("L1 host memory", "blue"),
    "l2": ("L2 shared pool", "purple"),
    "external": ("unknown tier", "yellow"),
    "computed": ("computed", "orange"),
}
"""One name and one colour for an origin on every panel of every board."""

Panel = timeseries.Panel | stat.Panel | statetimeline.Panel


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and what its series are called."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a panel asks: `asks` is the row whose question it answers, `empty` why there may be no data.

    `note` says what a reader might get wrong.
    """

    title: str
    asks: Metric
    empty: str
    note: str = ""

    @property
    def description(self) -> str:
        """The text behind the panel's (i)."""
        return f"{self.asks.answers}\n\n{self.note}" if self.note else self.asks.answers


def lines(
    question: Question,
    queries: Sequence[Query],
    *,
    unit: str,
    stacked: bool = False,
    largest: float | None = None,
) -> timeseries.Panel:
    """Values over time, from 0 up to `largest` where known; `stacked` where they add up to a whole."""
    panel = timeseries.Panel()
    _ask(panel, question, queries, unit)
    panel.min(0).draw_style(GraphDrawStyle.LINE).show_points(VisibilityMode.NEVER)
    panel.line_width(1).fill_opacity(60 if stacked else 0)
    if largest is not None:
        panel.max(largest)
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    panel.legend(
        common.VizLegendOptions()
        .show_legend(True)
        .placement(LegendPlacement.BOTTOM)
        .display_mode(LegendDisplayMode.LIST)
    )
    # A stack keeps the order of its layers in the tooltip; lines are read from the largest.
    order = SortOrder.NONE if stacked else SortOrder.DESCENDING
    panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(order))
    for origin, (name, color) in NAMES_AND_COLORS.items():
        panel.override_by_name(origin, _named(name, color))
    return panel


def number(question: Question, query: Query, *, unit: str) -> stat.Panel:
    """The latest value, large, with its course behind it."""
    panel = stat.Panel()
    _ask(panel, question, [query], unit)
    panel.graph_mode(BigValueGraphMode.AREA)
    panel.color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color("blue"))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    return panel


def states(question: Question, query: Query) -> statetimeline.Panel:
    """1 and 0 over time as up and down, one band a series."""
    panel = statetimeline.Panel()
    _ask(panel, question, [query], STATE)
    panel.mappings(
        [
            ValueMap(
                options={
                    "0": ValueMappingResult(text="down", color="red", index=0),
                    "1": ValueMappingResult(text="up", color="green", index=1),
                }
            )
        ]
    )
    steps = [Threshold(value=None, color="red"), Threshold(value=1.0, color="green")]
    panel.thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    panel.color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
    panel.show_value(VisibilityMode.NEVER)
    panel.legend(common.VizLegendOptions().show_legend(False))
    return panel


def _ask(panel: Panel, question: Question, queries: Sequence[Query], unit: str) -> None:
    panel.title(question.title).description(question.description).no_value(question.empty)
    panel.unit(unit).datasource(DATASOURCE)
    for ref_id, query in zip("ABCDEFGH", queries, strict=False):
        target = Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ref_id).range()
        panel.with_target(target.datasource(DATASOURCE))


def _named(name: str, color: str) -> list[DynamicConfigValue]:
    return [
        DynamicConfigValue(id_val="displayName", value=name),
        DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color}),
    ]
