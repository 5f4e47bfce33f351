"""How long requests waited for their first token, what of it was expected, and what made it grow.

Quantiles of an endpoint come from recorded buckets: the raw ones are a hundred and thirty for each replica.
"""

from __future__ import annotations

from dashboards.promql import Matcher, bucket_rate, gauge, one_of, quantile, ratio, sum_by
from dashboards.rules.objective import DEFAULT_OBJECTIVE
from dashboards.rules.recording import (
    FIRST_TOKEN_RATE,
    TOKEN_RATE,
    TOKEN_RATE_BY_TIER,
    TTFT_BUCKET_RATE,
    recorded,
    slow_rate,
)
from dashboards.variables import ENDPOINT, ENDPOINT_LABELS, ENGINE, OWNER, OWNER_LABELS
from tierscope.registry.metrics import TIME_TO_FIRST_TOKEN
from tierscope.registry.regression_metrics import (
    DETECTOR_STATE,
    TTFT_EXPECTED,
    TTFT_REGRESSION,
    TTFT_RISE,
)
from tierscope.registry.types import Metric

GROUP = (*ENDPOINT_LABELS, "workload")
"""What the detector looks at by itself."""
RAISED = ("cause", "tier", "reason", "since")
"""What it says of a regression."""


def ttft_quantile(share: float, served_from: Matcher) -> str:
    """TTFT that this share of the endpoints' requests did not exceed, by who served, over five minutes."""
    buckets = recorded(TTFT_BUCKET_RATE, ENDPOINT, served_from=served_from)
    return quantile(share, buckets, "served_from")


def ttft_quantile_of_all(share: float) -> str:
    """The same of all requests, whoever served them."""
    return quantile(share, recorded(TTFT_BUCKET_RATE, ENDPOINT))


def ttft_of_replicas(share: float) -> str:
    """The same of the replicas chosen, from their own buckets."""
    return quantile(share, bucket_rate(TIME_TO_FIRST_TOKEN, ENGINE))


def requests_ratio(served_from: Matcher) -> str:
    """Share of requests by the outermost tier that served any of their prompt."""
    some = sum_by(recorded(TTFT_BUCKET_RATE, ENDPOINT, served_from=served_from, le="+Inf"), "served_from")
    every = sum_by(recorded(TTFT_BUCKET_RATE, ENDPOINT, le="+Inf"))
    return ratio(some, every, on="ignoring (served_from) group_left ()")


def late_ratio() -> str:
    """Share of requests that missed the TTFT objective, by endpoint."""
    late = sum_by(recorded(slow_rate(DEFAULT_OBJECTIVE), ENDPOINT), *OWNER_LABELS)
    return ratio(late, sum_by(recorded(FIRST_TOKEN_RATE, ENDPOINT), *OWNER_LABELS))


def prompt_tokens_a_request() -> str:
    """Mean prompt tokens of a request: what was asked."""
    return ratio(sum_by(recorded(TOKEN_RATE, ENDPOINT)), sum_by(recorded(FIRST_TOKEN_RATE, ENDPOINT)))


def computed_tokens_a_request() -> str:
    """Mean prompt tokens of a request that no cache had: what had to be computed."""
    computed = sum_by(recorded(TOKEN_RATE_BY_TIER, ENDPOINT, tier="computed"))
    return ratio(computed, sum_by(recorded(FIRST_TOKEN_RATE, ENDPOINT)))


def against_expected() -> str:
    """TTFT over what its prompts explain, by endpoint, model and workload."""
    return one_of("max", gauge(TTFT_EXPECTED, ENDPOINT), *GROUP)


def rise_by_cause() -> str:
    """Seconds that each part adds to TTFT, of the group where it adds most."""
    return f"max by (cause) ({gauge(TTFT_RISE, ENDPOINT)})"


def regressions(metric: Metric) -> str:
    """What is raised now, with who did it and since when."""
    return one_of("max", gauge(metric, ENDPOINT), *GROUP, *RAISED)


def regressions_of_owner() -> str:
    """What is raised now at the endpoints chosen, whichever of their models: for an annotation."""
    return f"{one_of('max', gauge(TTFT_REGRESSION, OWNER), *GROUP, *RAISED)} > 1"


def detector_state() -> str:
    """Where the detector of each model and workload stands."""
    return f"{one_of('max', gauge(DETECTOR_STATE, ENDPOINT), *GROUP, 'state')} == 1"
