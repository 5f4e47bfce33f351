"""Faults of expressions that parse; each case is one that boards are known to ship with."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboards.lint.expressions import ExpressionCheck
from dashboards.rules.recording import TOKEN_RATE
from tierscope.registry.metrics import (
    COMPLETENESS,
    LOOKUP_TOKENS,
    SOURCE_UP,
    TIME_TO_FIRST_TOKEN,
    USED_BYTES,
)

LOOKUPS = LOOKUP_TOKENS.name
UP = SOURCE_UP.name
TTFT = TIME_TO_FIRST_TOKEN.name


def problems(expression: str) -> str:
    """The problems of an expression that may look back 253 s, as one text."""
    return "; ".join(ExpressionCheck((TOKEN_RATE,), timedelta(seconds=253)).check(expression)[0])


def labels(expression: str) -> set[str]:
    """The labels its result can have."""
    return set(ExpressionCheck((TOKEN_RATE,), timedelta(seconds=253)).check(expression)[1])


@pytest.mark.parametrize(
    "expression",
    [
        f"sum by (tier) (rate({LOOKUPS}[253s])) / ignoring (tier) group_left () sum(rate({LOOKUPS}[253s]))",
        f"histogram_quantile(0.9, sum by (le, served_from) (rate({TTFT}_bucket[253s])))",
        f"sum(rate({TTFT}_sum[253s])) / sum(rate({TTFT}_count[253s]))",
        f"min by (source) ({COMPLETENESS.name})",
        f'avg by (instance) ({UP}{{job="tierscope"}})',
        f"sum by (cluster, endpoint) ({TOKEN_RATE.record})",
        f"sum({USED_BYTES.name} / 1024)",
        f"sum({COMPLETENESS.name} * on (instance) {UP})",
        f"-({UP} offset 5m) > bool 0",
    ],
)
def test_a_sound_expression_passes(expression):
    """Rates of counters, ratios of sums, extremes of ratios."""
    assert problems(expression) == ""


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("sum by (tier (x)", "does not parse"),
        (f"rate({LOOKUPS}_total[253s])", f"nothing publishes {LOOKUPS}_total; did you mean {LOOKUPS}?"),
        (f"rate({LOOKUPS.removesuffix('_total')}[253s])", f"did you mean {LOOKUPS}?"),
        ('{tier="l0"}', "nothing publishes a series without a name"),
        (f"rate({TTFT}[253s])", f"nothing publishes {TTFT}; did you mean {TTFT}_"),
        (f'{UP}{{sorce="x"}}', f"{UP} has no label sorce; it has cluster, instance, job, source"),
        (f"sum({LOOKUPS}) / sum({LOOKUPS})", "a figure of its whole lifetime"),
        (f"sum({TTFT}_sum) / sum({TTFT}_count)", "a figure of its whole lifetime"),
        (f"max_over_time({LOOKUPS}[253s])", "counter read without a rate"),
        (f"rate({LOOKUPS}[5m])", "looks back a fixed 0:05:00"),
        (f"sum({COMPLETENESS.name})", "adds up ratios"),
        (f"sum by (source) (max_over_time({COMPLETENESS.name}[253s]))", "adds up ratios"),
        (f"sum(max by (source) ({COMPLETENESS.name}))", "adds up ratios"),
        (f"sum({USED_BYTES.name} / {USED_BYTES.name})", "adds up ratios"),
        (f"sum by (pod) ({UP})", "no label pod is left to group by; cluster, instance, job, source are"),
        (f"sum by (rank) ({TOKEN_RATE.record})", "no label rank is left to group by"),
        (f"sum by (source) (sum by (instance) ({UP}))", "no label source is left"),
        (
            f"sum by (endpoint) ({TOKEN_RATE.record})",
            "two clusters may have one endpoint: group by cluster, too",
        ),
        (f"max without (cluster) ({USED_BYTES.name})", "two clusters may have one holder"),
    ],
)
def test_a_fault_is_named(expression, words):
    """What Grafana would show as an empty or a wrong panel."""
    assert words in problems(expression)


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        (f"sum({UP})", set()),
        (f"sum without (job) ({UP})", {"cluster", "instance", "source"}),
        (f"histogram_quantile(0.5, sum by (le, served_from) (rate({TTFT}_bucket[253s])))", {"served_from"}),
        (f"1 - (sum by (source) ({UP}))", {"source"}),
        ("1", set()),
    ],
)
def test_the_labels_of_a_result_are_known(expression, kept):
    """A legend or an alert's words may name these."""
    assert labels(expression) == kept
