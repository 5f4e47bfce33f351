"""Recorded series: what boards and alerts over many replicas read instead of every engine's own.

Named as Prometheus' guide has it, level:metric:operation. The two parts of a ratio are recorded, not the
ratio: they can still be summed over models, endpoints and clusters.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashboards.promql import NOTHING_CHOSEN, Matcher, rate, selector, sum_by
from dashboards.rules.types import Recording, RuleGroup
from tierscope.registry.metrics import REQUEST_TOKENS
from tierscope.registry.types import Metric

WINDOW = "5m"
ENDPOINT = ("namespace", "endpoint", "model")


def _token_rate(*labels: str, means: str) -> Recording:
    expr = sum_by(rate(REQUEST_TOKENS, window=WINDOW), *labels)
    return Recording(_name(REQUEST_TOKENS, labels), expr, labels, means)


def _name(metric: Metric, labels: tuple[str, ...]) -> str:
    return f"{'_'.join(labels)}:{metric.name.removesuffix('_total')}:rate{WINDOW}"


TOKEN_RATE_BY_TIER = _token_rate(
    *ENDPOINT,
    "tier",
    means="Prompt tokens a second of an endpoint's model, by where their KV values came from.",
)
TOKEN_RATE = _token_rate(
    *ENDPOINT,
    means="Prompt tokens a second of an endpoint's model: what a hit ratio is a ratio of.",
)

RECORDING = RuleGroup("tierscope-recording", (TOKEN_RATE_BY_TIER, TOKEN_RATE))


def recorded(rule: Recording, chosen: Mapping[str, Matcher] = NOTHING_CHOSEN, /, **labels: Matcher) -> str:
    """The series a rule recorded; a label it does not keep is refused."""
    return selector(rule.record, rule.labels, {**labels, **chosen})
