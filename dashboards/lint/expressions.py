"""What may be wrong with a PromQL expression although it parses.

Faults seen on boards everywhere: a metric that no one publishes, a label that a series does not have, a
counter read without a rate (a lifetime average), a fixed window shorter than the scrape interval, ratios
added up over engines.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from datetime import timedelta

import promql_parser
from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    ParenExpr,
    StringLiteral,
    UnaryExpr,
    VectorSelector,
)

from dashboards.promql import CLUSTER
from dashboards.rules.types import Recording
from tierscope.registry.engine_metrics import ENGINE_METRICS
from tierscope.registry.metrics import METRICS
from tierscope.registry.types import Kind

TARGET_LABELS = frozenset({"instance", "job", CLUSTER})
"""What a scrape, or a Prometheus of several clusters, adds to every series."""

SCRAPED_LABELS = frozenset({"namespace", "pod"})
"""What discovery adds to an engine's own series, which do not know where they run."""

OVER_COUNTERS = frozenset({"rate", "irate", "increase", "resets"})
PRESENCE = frozenset({"count", "group"})
"""Aggregations that ask whether a series is there, not for its value."""
CHOOSING = frozenset({"topk", "bottomk"})
"""Aggregations that leave out series and change none."""
ONE_SIDED = frozenset({"and", "unless"})
NAMED_IN_A_CLUSTER = frozenset({"endpoint", "holder", "namespace"})
"""Labels whose values are names in a cluster: another may have the same."""


def series_labels(recordings: Sequence[Recording]) -> dict[str, frozenset[str]]:
    """Every series one may ask for, with its labels: ours, the engines' own, what rules record."""
    known: dict[str, frozenset[str]] = {}
    for metric in METRICS:
        labels = TARGET_LABELS | set(metric.labels)
        known |= (
            _of_histogram(metric.name, labels) if metric.kind is Kind.HISTOGRAM else {metric.name: labels}
        )
    for row in ENGINE_METRICS:
        labels = TARGET_LABELS | SCRAPED_LABELS | set(row.labels)
        for name in row.spellings:
            known |= _of_histogram(name, labels) if row.kind is Kind.HISTOGRAM else {name: labels}
    return known | {rule.record: frozenset((CLUSTER, *rule.labels)) for rule in recordings}


def _of_histogram(name: str, labels: frozenset[str]) -> dict[str, frozenset[str]]:
    return {f"{name}_bucket": labels | {"le"}, f"{name}_count": labels, f"{name}_sum": labels}


def counters() -> frozenset[str]:
    """Every series that only rises until its process restarts."""
    names = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER}
    names |= {name for row in ENGINE_METRICS if row.kind is Kind.COUNTER for name in row.spellings}
    histograms = {metric.name for metric in METRICS if metric.kind is Kind.HISTOGRAM}
    histograms |= {name for row in ENGINE_METRICS if row.kind is Kind.HISTOGRAM for name in row.names}
    return frozenset(names | {name + part for name in histograms for part in ("_bucket", "_count", "_sum")})


class ExpressionCheck:
    """One expression under the rules.

    `window` is the only range over which it may look at a raw series, `longer` those over which it may look
    at a recorded one: a day of every replica's own series would be read anew at each evaluation.
    """

    def __init__(
        self, recordings: Sequence[Recording], window: timedelta, longer: Collection[timedelta] = ()
    ) -> None:
        self._known = series_labels(recordings)
        self._recorded = frozenset(rule.record for rule in recordings)
        self._counters = counters()
        self._window = window
        self._longer = frozenset(longer)
        self._problems: list[str] = []

    def check(self, expression: str) -> tuple[list[str], frozenset[str]]:
        """Problems of an expression (variables replaced), and the labels its result can have."""
        self._problems = []
        try:
            parsed = promql_parser.parse(expression)
        except ValueError as error:
            return [f"it does not parse: {error}"], frozenset()
        labels = self._labels(parsed, over=None)
        return self._problems, labels

    def _labels(self, node: Expr, *, over: str | None) -> frozenset[str]:
        """Labels a node's result can have; notes problems on the way. `over` is the function around it."""
        labels: frozenset[str] = frozenset()
        match node:
            case VectorSelector():
                labels = self._selector(node, over)
            case MatrixSelector():
                longer = self._longer if node.vector_selector.name in self._recorded else frozenset()
                if node.range != self._window and node.range not in longer:
                    self._problems.append(f"it looks back a fixed {node.range}, not the window it should")
                labels = self._selector(node.vector_selector, over)
            case AggregateExpr():
                labels = self._aggregate(node)
            case Call():
                labels = self._call(node)
            case BinaryExpr():
                one_sided = str(node.op) in ONE_SIDED
                inner = over if one_sided and over in PRESENCE else None
                labels, right = self._labels(node.lhs, over=inner), self._labels(node.rhs, over=inner)
                labels = labels if one_sided else labels | right
            case ParenExpr() | UnaryExpr():
                labels = self._labels(node.expr, over=over)
        return labels

    def _call(self, node: Call) -> frozenset[str]:
        labels: frozenset[str] = frozenset()
        labels = labels.union(*(self._labels(one, over=node.func.name) for one in node.args))
        if node.func.name == "histogram_quantile":
            labels -= {"le"}
        if node.func.name == "label_replace" and isinstance(written := node.args[1], StringLiteral):
            labels |= {written.val}
        return labels

    def _selector(self, node: VectorSelector, over: str | None) -> frozenset[str]:
        name = node.name or ""
        labels = self._known.get(name)
        if labels is None:
            near = difflib.get_close_matches(name, self._known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self._problems.append(f"nothing publishes {name or 'a series without a name'}{hint}")
            return frozenset()
        unknown = sorted({matcher.name for matcher in node.matchers.matchers} - labels)
        if unknown:
            self._problems.append(f"{name} has no label {', '.join(unknown)}; it has {_listed(labels)}")
        if name in self._counters and over not in OVER_COUNTERS | PRESENCE:
            self._problems.append(f"{name} is a counter read without a rate: a figure of its whole lifetime")
        return labels

    def _aggregate(self, node: AggregateExpr) -> frozenset[str]:
        operation = str(node.op)
        labels = self._labels(node.expr, over=operation if operation in PRESENCE else None)
        if operation == "sum" and is_ratio(node.expr):
            self._problems.append("it adds up ratios; take an average, an extreme, or a ratio of sums")
        if node.modifier is None:
            return labels if operation in CHOOSING else frozenset()
        named = frozenset(node.modifier.labels)
        if labels and not named <= labels:
            self._problems.append(
                f"no label {_listed(named - labels)} is left to group by; {_listed(labels)} are"
            )
        if operation in CHOOSING:
            return labels
        kept = labels - named if node.modifier.type == AggModifierType.Without else named
        if CLUSTER in labels - kept and (names := kept & NAMED_IN_A_CLUSTER):
            self._problems.append(f"two clusters may have one {_listed(names)}: group by {CLUSTER}, too")
        return kept


def is_ratio(node: Expr) -> bool:
    """Whether a node's values are ratios: a series named so, or a quotient, whatever was done to it since."""
    match node:
        case VectorSelector():
            return (node.name or "").endswith("_ratio")
        case MatrixSelector():
            return is_ratio(node.vector_selector)
        case BinaryExpr():
            quotient = str(node.op) == "/" and not isinstance(node.rhs, NumberLiteral)
            # A ratio times what it is a ratio of is an amount again; anything else leaves it one.
            return quotient or (str(node.op) != "*" and (is_ratio(node.lhs) or is_ratio(node.rhs)))
        case ParenExpr() | UnaryExpr() | AggregateExpr():
            return is_ratio(node.expr)
        case Call():
            return any(is_ratio(one) for one in node.args)
    return False


def _listed(labels: frozenset[str]) -> str:
    return ", ".join(sorted(labels)) or "none"
