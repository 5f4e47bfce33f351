"""Recorded series: what boards and alerts over many replicas read instead of every engine's own.

Named as Prometheus' guide has it, level:metric:operation. The two parts of a ratio are recorded, not the
ratio: they can still be summed over models, endpoints and clusters, and averaged over time. Raw series are
looked at over `WINDOW` alone; whoever wants a longer look takes it at a recorded series, of which there are
a few an endpoint however many replicas serve it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashboards.promql import (
    CLUSTER,
    NOTHING_CHOSEN,
    AnyOf,
    Matcher,
    NoneOf,
    gauge,
    rate,
    selector,
    sum_by,
    where_any,
    without,
)
from dashboards.rules.objective import TtftObjective
from dashboards.rules.types import Recording, RuleGroup
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import UNASKED_TOKENS
from tierscope.registry.metrics import CAPACITY_BYTES, REQUEST_TOKENS, TIME_TO_FIRST_TOKEN, USED_BYTES
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS
from tierscope.registry.tenant_metrics import TENANT_TOKENS
from tierscope.registry.types import Metric

WINDOW = "5m"
LONGER_WINDOWS = ("30m", "1h", "6h", "3d")
"""How far back alerts look at recorded series."""

ENDPOINT = ("namespace", "endpoint", "model")
ENGINE = (*ENDPOINT, "replica", "rank")
MOST_TENANTS = 50
"""Of an endpoint: what boards offer to choose from, however many nodes give however many tenants series."""
ROLLOUT_WINDOW = "30m"
"""An engine younger than this is new: its tiers are still filling."""
FOR_ROOM = NoneOf("clear|restart|after_read|delete")
"""Reasons of evictions that more room would have put off, or that nobody told."""


def _recorded_as(metric: Metric, labels: tuple[str, ...], operation: str, part: str = "") -> str:
    name = metric.name.removesuffix("_total").removesuffix("_seconds" if part else "")
    return f"{'_'.join(labels)}:{name}{part}:{operation}"


def _token_rate(*labels: str, means: str) -> Recording:
    expr = sum_by(rate(REQUEST_TOKENS, window=WINDOW), CLUSTER, *labels)
    return Recording(_recorded_as(REQUEST_TOKENS, labels, f"rate{WINDOW}"), expr, labels, means)


def _ttft_rate(part: str, means: str, expr: str, *more_labels: str) -> Recording:
    labels = (*ENDPOINT, *more_labels)
    name = _recorded_as(TIME_TO_FIRST_TOKEN, labels, f"rate{WINDOW}", part)
    return Recording(name, expr, labels, means)


def _counted(part: str, *labels: str, **matchers: Matcher) -> str:
    """Observations of TTFT a second: those of a part of the histogram, summed over replicas."""
    known = (*TIME_TO_FIRST_TOKEN.labels, "le")
    series = selector(f"{TIME_TO_FIRST_TOKEN.name}{part}", known, matchers)
    return sum_by(f"rate({series}[{WINDOW}])", CLUSTER, *labels)


def _miss_rate(metric: Metric, means: str, *, moving: bool = False) -> Recording:
    """What is counted of misses, a second, over more than the one to three minutes between two looks.

    `moving` are those that stand still while they are not known: then they are absent, and not 0.
    """
    labels = metric.labels
    expr = sum_by(rate(metric, window=WINDOW), CLUSTER, *labels)
    if moving:
        whole = (CLUSTER, *(label for label in labels if label != "cause"))
        any_cause = where_any(sum_by(rate(metric, window=WINDOW), *whole))
        expr = f"{expr} and on ({', '.join(whole)}) {any_cause}"
    return Recording(_recorded_as(metric, labels, f"rate{WINDOW}"), expr, labels, means)


def _pool_gauge(metric: Metric, means: str) -> Recording:
    labels = ("tier", "holder")
    expr = f"max by ({', '.join((CLUSTER, *labels))}) ({gauge(metric, tier=Tier.L2)})"
    return Recording(_recorded_as(metric, labels, "max"), expr, labels, means)


def _of_the_busiest() -> str:
    """Tokens by tenant and tier, of the tenants of an endpoint that have most."""
    owner = f"{CLUSTER}, namespace, endpoint"
    by_tier = sum_by(rate(TENANT_TOKENS, window=WINDOW), CLUSTER, "namespace", "endpoint", "tenant", "tier")
    by_tenant = sum_by(rate(TENANT_TOKENS, window=WINDOW), CLUSTER, "namespace", "endpoint", "tenant")
    busiest = f"topk by ({owner}) ({MOST_TENANTS}, {by_tenant})"
    return f"{by_tier} and on ({owner}, tenant) {busiest}"


def _new_engines() -> Recording:
    """Engines that were not there `ROLLOUT_WINDOW` ago: a rollout, a scale-up, a pod that moved."""
    engine = ", ".join((CLUSTER, *ENGINE))
    now = f"group by ({engine}) ({REQUEST_TOKENS.name})"
    before = f"group by ({engine}) ({REQUEST_TOKENS.name} offset {ROLLOUT_WINDOW})"
    expr = f"count by ({', '.join((CLUSTER, *ENDPOINT))}) ({now} unless {before})"
    return Recording(
        f"{'_'.join(ENDPOINT)}:tierscope_new_engines:count",
        expr,
        ENDPOINT,
        f"Engines of an endpoint's model that were not there {ROLLOUT_WINDOW} ago.",
    )


TOKEN_RATE_BY_TIER = _token_rate(
    *ENDPOINT,
    "tier",
    means="Prompt tokens a second of an endpoint's model, by where their KV values came from.",
)
TOKEN_RATE = _token_rate(
    *ENDPOINT,
    means="Prompt tokens a second of an endpoint's model.",
)
ASKED_RATE = Recording(
    _recorded_as(REQUEST_TOKENS, ENDPOINT, f"rate{WINDOW}", "_asked"),
    without(TOKEN_RATE.expr, sum_by(rate(UNASKED_TOKENS, window=WINDOW), CLUSTER, *ENDPOINT)),
    ENDPOINT,
    "Prompt tokens a second that were looked up in a cache (those with prompt logprobs are not): what a hit "
    "ratio is a ratio of.",
)
FIRST_TOKEN_RATE = _ttft_rate(
    "", "Requests a second of an endpoint's model that reached their first token.",
    _counted("_count", *ENDPOINT),
)  # fmt: skip
TTFT_BUCKET_RATE = _ttft_rate(
    "_bucket",
    "Requests a second by who served them and by their TTFT's upper bound in seconds: what quantiles are of.",
    _counted("_bucket", *ENDPOINT, "served_from", "le"),
    "served_from",
    "le",
)
POOL_USED = _pool_gauge(USED_BYTES, "Bytes of a shared pool that hold blocks, whoever reads it.")
POOL_CAPACITY = _pool_gauge(CAPACITY_BYTES, "Bytes of a shared pool, whoever reads it.")
NEW_ENGINES = _new_engines()
TENANT_RATE = Recording(
    _recorded_as(TENANT_TOKENS, ("namespace", "endpoint", "tenant", "tier"), f"rate{WINDOW}"),
    _of_the_busiest(),
    ("namespace", "endpoint", "tenant", "tier"),
    f"Prompt tokens a second of an endpoint's {MOST_TENANTS} busiest tenants, by where their KV values came "
    "from; none where exporters tell no tenants.",
)

MISS_TOKEN_RATE = _miss_rate(
    MISS_TOKENS, "Prompt tokens an endpoint computes a second, by why they were computed."
)
MISS_SECONDS_RATE = _miss_rate(
    MISS_SECONDS,
    "Seconds of TTFT that computing them takes an endpoint's replicas each second, by cause; none while TTFT "
    "is not explained, or nothing is computed.",
    moving=True,
)
MISS_COST_RATE = _miss_rate(
    MISS_COST,
    "What these seconds of replicas cost a second, by cause and currency; none without prices either.",
    moving=True,
)


def slow_rate(objective: TtftObjective) -> Recording:
    """Requests a second whose TTFT missed the objective."""
    within = AnyOf(objective.edge_pattern)
    return _ttft_rate(
        "_slow",
        "Requests a second of an endpoint's model whose first token took longer than the objective's "
        f"{objective.seconds:g} s.",
        f"{_counted('_count', *ENDPOINT)} - {_counted('_bucket', *ENDPOINT, le=within)}",
    )


def recording_group(objective: TtftObjective) -> RuleGroup:
    """Every recorded series."""
    return RuleGroup(
        "tierscope-recording",
        (
            TOKEN_RATE_BY_TIER,
            TOKEN_RATE,
            ASKED_RATE,
            FIRST_TOKEN_RATE,
            TTFT_BUCKET_RATE,
            slow_rate(objective),
            POOL_USED,
            POOL_CAPACITY,
            NEW_ENGINES,
            TENANT_RATE,
            MISS_TOKEN_RATE,
            MISS_SECONDS_RATE,
            MISS_COST_RATE,
        ),
    )


def recorded(rule: Recording, chosen: Mapping[str, Matcher] = NOTHING_CHOSEN, /, **labels: Matcher) -> str:
    """The series a rule recorded; a label it does not keep is refused."""
    return selector(rule.record, rule.labels, {**labels, **chosen})


def averaged(rule: Recording, window: str, *, offset: str = "", **labels: Matcher) -> str:
    """A recorded series' mean over one of the longer windows, as it stood `offset` ago."""
    before = f" offset {offset}" if offset else ""
    return f"avg_over_time({recorded(rule, **labels)}[{window}]{before})"
