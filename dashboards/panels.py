"""Panels with the look fixed once: every panel states its question, has a unit, and says why it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from grafana_foundation_sdk.builders import bargauge, common, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.dashboard import DashboardLink, FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.variables import DATASOURCE

RATIO = "percentunit"
SECONDS = "s"
# Not `si:`: Grafana takes the first letter of what follows for a scale, and `messages` for thousandths.
TOKENS_PER_SECOND = "count:tokens/s"
BLOCKS_PER_SECOND = "count:blocks/s"
MESSAGES_PER_SECOND = "count:messages/s"
REQUESTS_PER_SECOND = "reqps"
ERRORS_PER_SECOND = "count:errors/s"
RESTARTS_PER_SECOND = "count:restarts/s"
BATCHES_PER_SECOND = "count:batches/s"
COMMITS_PER_SECOND = "count:commits/s"
TIMES_PER_SECOND = "cps"
EVENTS_PER_SECOND = "count:events/s"
PREEMPTIONS_PER_SECOND = "count:preemptions/s"
SAMPLES_PER_SECOND = "count:samples/s"
SPANS_PER_SECOND = "count:spans/s"
ROWS_PER_SECOND = "count:rows/s"
BYTES_PER_SECOND = "Bps"
BYTES = "bytes"
BLOCKS = "count:blocks"
TOKENS = "count:tokens"
COUNT = "short"
TIMES = "suffix:×"
AN_HOUR = "suffix:/h"
"""Of money: which currency stands in a label, and so in the legend."""
SECONDS_EACH_SECOND = "suffix:s/s"
STATE = "bool_on_off"

NARROWEST_COLUMN = 60
"""Pixels: Grafana's own 150 push the values of a table in a third of a board out of sight."""

NAMES_AND_COLORS = {
    "l0": ("L0 GPU memory", "green"),
    "l1": ("L1 host memory", "blue"),
    "l2": ("L2 shared pool", "purple"),
    "external": ("unknown tier", "yellow"),
    "computed": ("computed", "orange"),
}
"""One name and one colour for an origin on every panel of every board."""

Panel = timeseries.Panel | stat.Panel | statetimeline.Panel | table.Panel | bargauge.Panel


class Asked(Protocol):
    """A row of a table of metrics."""

    @property
    def answers(self) -> str:
        """The question that the metric answers."""
        ...


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and what its series are called."""

    expr: str
    legend: str
    traces: bool = False
    """Whether traces of single observations are shown too: only raw buckets have them."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a panel asks: `asks` is the row whose question it answers, `empty` why there may be no data.

    `note` says what a reader might get wrong; `leads_to` is the uid of the board that goes on from here.
    """

    title: str
    asks: Asked
    empty: str
    note: str = ""
    leads_to: str = ""

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
    signed: bool = False,
) -> timeseries.Panel:
    """Values over time, from 0 (`signed`: from below) up to `largest` where known.

    They are `stacked` where they add up to a whole.
    """
    panel = timeseries.Panel()
    _ask(panel, question, queries, unit)
    if not signed:
        panel.min(0)
    panel.draw_style(GraphDrawStyle.LINE).show_points(VisibilityMode.NEVER)
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


def number(question: Question, query: Query, *, unit: str, named: bool = False) -> stat.Panel:
    """The latest value, large, with its course behind it; `named` says what it is also where it is alone."""
    panel = stat.Panel()
    _ask(panel, question, [query], unit)
    if named:
        panel.text_mode(BigValueTextMode.VALUE_AND_NAME)
    panel.graph_mode(BigValueGraphMode.AREA)
    panel.color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color("blue"))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    return panel


def bars(
    question: Question, queries: Sequence[Query], *, unit: str, largest: float | None = None
) -> bargauge.Panel:
    """The latest values side by side."""
    panel = bargauge.Panel()
    _ask(panel, question, queries, unit, now=True)
    panel.text(common.VizTextDisplayOptions().title_size(12).value_size(16))  # names fit beside the bars
    panel.min(0).orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC)
    if largest is not None:
        panel.max(largest)
    panel.color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color("blue"))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    return panel


def listing(
    question: Question, query: Query, *, unit: str, of: str = "Value", first: Sequence[str] = ()
) -> table.Panel:
    """The series there are now, a line each: labels, `first` before the others, then the value as `of`."""
    panel = table.Panel()
    panel.min_width(NARROWEST_COLUMN)
    _ask(panel, question, [query], unit, now=True)
    renamed = {"excludeByName": {"Time": True, "__name__": True}, "renameByName": {"Value": of}}
    if first:
        renamed["indexByName"] = {label: place for place, label in enumerate((*first, "Value"))}
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=renamed))
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


def _ask(panel: Panel, question: Question, queries: Sequence[Query], unit: str, *, now: bool = False) -> None:
    panel.title(question.title).description(question.description).no_value(question.empty)
    panel.unit(unit).datasource(DATASOURCE)
    if question.leads_to:
        panel.links([_link(question.leads_to)])
    for ref_id, query in zip("ABCDEFGH", queries, strict=False):
        target = Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ref_id)
        if query.traces:
            target.exemplar(True)
        if isinstance(panel, table.Panel):
            target.format(PromQueryFormat.TABLE)
        target = target.instant() if now else target.range()
        panel.with_target(target.datasource(DATASOURCE))


def _link(uid: str) -> DashboardLink:
    """The way to a board, with the time and what was chosen."""
    url = f"/d/{uid}?${{__url_time_range}}&${{__all_variables}}"
    return DashboardLink("More").type(DashboardLinkType.LINK).url(url)


def _named(name: str, color: str) -> list[DynamicConfigValue]:
    return [
        DynamicConfigValue(id_val="displayName", value=name),
        DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color}),
    ]
