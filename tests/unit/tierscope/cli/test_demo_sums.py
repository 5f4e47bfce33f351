"""What the demo reads off a /metrics page."""

from __future__ import annotations

import pytest

from tierscope.cli.demo_sums import Sums, median_ttft_seconds, scraped_tokens
from tierscope.domain.requests import NO_TOKENS, TokenSplit

PAGE = """\
# TYPE tierscope_request_tokens_total counter
tierscope_request_tokens_total{replica="a",tier="l0"} 60
tierscope_request_tokens_total{replica="a",tier="computed"} 40
tierscope_request_tokens_total{replica="b",tier="l0"} 5
tierscope_request_tokens_total{replica="b",tier="l2"} 15
# TYPE tierscope_time_to_first_token_seconds histogram
tierscope_time_to_first_token_seconds_bucket{replica="a",served_from="l0",le="0.1"} 1
tierscope_time_to_first_token_seconds_bucket{replica="a",served_from="l0",le="0.2"} 3
tierscope_time_to_first_token_seconds_bucket{replica="a",served_from="l0",le="+Inf"} 3
tierscope_time_to_first_token_seconds_bucket{replica="b",served_from="l0",le="0.1"} 0
tierscope_time_to_first_token_seconds_bucket{replica="b",served_from="l0",le="0.2"} 1
tierscope_time_to_first_token_seconds_bucket{replica="b",served_from="l0",le="+Inf"} 1
tierscope_time_to_first_token_seconds_bucket{replica="b",served_from="l2",le="0.2"} 0
tierscope_time_to_first_token_seconds_bucket{replica="b",served_from="l2",le="+Inf"} 0
"""


def test_tokens_are_summed_over_engines_and_kept_apart_by_tier():
    """The scraped sum is the fleet's, by tier."""
    assert scraped_tokens(PAGE) == TokenSplit(120, l0=65, l2=15, computed=40)


def test_a_median_lies_inside_its_bucket_and_an_empty_one_is_absent():
    """One of four observations lies below 0.1 s, so the middle is a third into the next bucket."""
    assert median_ttft_seconds(PAGE) == {"l0": pytest.approx(0.1 + 0.1 / 3)}


def test_sums_of_nothing_are_not_called_equal():
    """Three zeros agree on nothing."""
    assert not Sums(NO_TOKENS, NO_TOKENS, NO_TOKENS).equal
