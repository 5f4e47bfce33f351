"""How long requests waited for their first token, and for loads."""

from __future__ import annotations

from dashboards.promql import Matcher, bucket_rate, count_rate, quantile, sum_by, where_any
from dashboards.variables import ENGINE
from tierscope.registry.metrics import TIME_TO_FIRST_TOKEN


def ttft_quantile(share: float, served_from: Matcher) -> str:
    """TTFT in seconds that this share of requests did not exceed; absent where there was no request."""
    return quantile(share, bucket_rate(TIME_TO_FIRST_TOKEN, ENGINE, served_from=served_from), "served_from")


def requests_ratio(served_from: Matcher) -> str:
    """Share of requests by the outermost tier that served any of their prompt."""
    some = sum_by(count_rate(TIME_TO_FIRST_TOKEN, ENGINE, served_from=served_from), "served_from")
    every = sum_by(count_rate(TIME_TO_FIRST_TOKEN, ENGINE))
    return f"{some} / ignoring (served_from) group_left () {where_any(every)}"
