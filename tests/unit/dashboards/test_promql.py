"""Queries are built from rows; what a row does not have is refused when the board is built."""

from __future__ import annotations

import pytest

from dashboards import promql
from dashboards.promql import AnyOf, NoneOf
from dashboards.rules.recording import TOKEN_RATE, recorded
from tierscope.domain.errors import BadInput
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import (
    LOOKUP_TOKENS,
    SOURCE_UP,
    STORE_BYTES,
    TIME_TO_FIRST_TOKEN,
)


def test_a_rate_is_over_grafanas_own_window():
    """The window follows the scrape interval, so a 60 s scrape has data too."""
    assert promql.rate(LOOKUP_TOKENS, result="hit") == (
        f'rate({LOOKUP_TOKENS.name}{{result="hit"}}[$__rate_interval])'
    )


def test_matchers_are_equal_any_of_and_none_of():
    """An enumeration's member stands for its value."""
    expression = promql.rate(
        LOOKUP_TOKENS, window="5m", tier=Tier.L0, holder=AnyOf("a|b"), result=NoneOf("miss")
    )

    assert expression == f'rate({LOOKUP_TOKENS.name}{{tier="l0",holder=~"a|b",result!~"miss"}}[5m])'


def test_no_matcher_leaves_the_name_alone():
    """`name{}` would read as if something were missing."""
    assert promql.gauge(STORE_BYTES) == STORE_BYTES.name


def test_the_parts_of_a_histogram_are_named_by_us():
    """Nobody spells `_bucket` by hand."""
    assert f"{TIME_TO_FIRST_TOKEN.name}_bucket" in promql.bucket_rate(TIME_TO_FIRST_TOKEN)
    assert f"{TIME_TO_FIRST_TOKEN.name}_count" in promql.count_rate(TIME_TO_FIRST_TOKEN)


def test_a_label_the_row_does_not_have_is_refused():
    """The error prints the label given and the labels there are."""
    with pytest.raises(BadInput) as refused:
        promql.rate(LOOKUP_TOKENS, {"pod": AnyOf("$pod")}, tier="l0")

    assert refused.value.what == f"{LOOKUP_TOKENS.name} has no label pod"
    assert refused.value.fix == "use tier, holder, result"


@pytest.mark.parametrize(
    ("function", "metric"),
    [
        (promql.rate, SOURCE_UP),
        (promql.rate, TIME_TO_FIRST_TOKEN),
        (promql.gauge, LOOKUP_TOKENS),
        (promql.bucket_rate, LOOKUP_TOKENS),
        (promql.count_rate, SOURCE_UP),
    ],
)
def test_a_function_takes_its_own_kind_of_metric(function, metric):
    """A counter is never read bare, a gauge never as a rate."""
    with pytest.raises(BadInput, match=metric.name):
        function(metric)


def test_a_recorded_series_has_the_labels_it_keeps_and_no_others():
    """Replicas are summed away in a recording; to ask for one is a mistake."""
    assert recorded(TOKEN_RATE, endpoint="chat") == f'{TOKEN_RATE.record}{{endpoint="chat"}}'
    with pytest.raises(BadInput, match="has no label replica"):
        recorded(TOKEN_RATE, replica="pod-0")


def test_sums_name_what_they_keep():
    """No label: one number."""
    assert promql.sum_by("x", "tier", "reason") == "sum by (tier, reason) (x)"
    assert promql.sum_by("x") == "sum(x)"
