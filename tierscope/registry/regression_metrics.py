"""Metrics of the regression detector: how TTFT stands against what its prompts explain, and who did it."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric, MetricGroup

GROUP = ("namespace", "endpoint", "model", "workload")
GUILTY = (*GROUP, "cause", "tier", "reason", "since")

TTFT_REGRESSION = Metric(
    name="tierscope_ttft_regression_ratio",
    kind=Kind.GAUGE,
    labels=GUILTY,
    help="TTFT over what its prompts explain while a regression goes on; absent without one. cause: "
    "tier_share, tier_speed, queue, engine; tier: l0, l1, l2, none; since: UTC, to the minute; workload: the "
    "Deployment or StatefulSet of the replicas, empty where pods' names do not tell.",
    answers="Who made TTFT worse, by how much, and since when?",
)
TTFT_REGRESSION_SECONDS = Metric(
    name="tierscope_ttft_regression_seconds",
    kind=Kind.GAUGE,
    labels=GUILTY,
    help="What a request waits longer for its first token than its prompt explains, while a "
    "regression goes on.",
    answers="What does the regression cost a user?",
)
TTFT_EXPECTED = Metric(
    name="tierscope_ttft_against_expected_ratio",
    kind=Kind.GAUGE,
    labels=GROUP,
    help="TTFT of the latest requests over what they would have taken before; absent while that is learnt.",
    answers="Is TTFT what its prompts explain?",
)
TTFT_RISE = Metric(
    name="tierscope_ttft_rise_seconds",
    kind=Kind.GAUGE,
    labels=(*GROUP, "cause"),
    help="What each part adds to the TTFT of the latest requests against the baseline: mix, tier_share, "
    "tier_speed, queue, engine. Negative where it got better.",
    answers="Which part of TTFT has grown?",
)
REGRESSIONS = Metric(
    name="tierscope_ttft_regressions_total",
    kind=Kind.COUNTER,
    labels=GROUP,
    help="Regressions found since this process began.",
    answers="How often did TTFT get worse?",
    allow=("no_unit",),
)
DETECTOR_STATE = Metric(
    name="tierscope_ttft_detector_state",
    kind=Kind.GAUGE,
    labels=(*GROUP, "state"),
    help="1 for where the detector stands: learning what is usual, watching, raised.",
    answers="Can a regression be found yet?",
    allow=("no_unit",),
)

REGRESSION = MetricGroup(
    title="TTFT regressions",
    published_by="`tierscope collect`",
    metrics=(
        TTFT_REGRESSION,
        TTFT_REGRESSION_SECONDS,
        TTFT_EXPECTED,
        TTFT_RISE,
        REGRESSIONS,
        DETECTOR_STATE,
    ),
)
