"""Alerts about ourselves: what cannot be read, what is lost on the way, what is not stored."""

from __future__ import annotations

from dashboards.promql import CLUSTER, AnyOf, gauge, rate, sum_by, where_any
from dashboards.rules.recording import WINDOW
from dashboards.rules.types import Alert, Severity
from tierscope.registry.metrics import COMMIT_WAIT_SECONDS, SOURCE_MESSAGES, SOURCE_UP, STORE_REFUSALS

LOST_RATIO = 0.01
LONGEST_WAIT_SECONDS = 60
OF_A_SOURCE = (CLUSTER, "source", "instance")

SOURCE_DOWN = Alert(
    name="TierscopeSourceDown",
    expr=f"{gauge(SOURCE_UP)} == 0",
    for_seconds=300,
    severity=Severity.WARNING,
    means="A source has not been read for a while; what only it knows is absent.",
    summary="{{ $labels.source }} cannot be read.",
    description=(
        "The exporter {{ $labels.instance }} has not been able to read {{ $labels.source }} for 5 minutes. "
        "What only this source knows is absent from every number; it is not zero."
    ),
    board="tierscope-pipeline",
)


def _lost_ratio() -> str:
    lost = rate(SOURCE_MESSAGES, window=WINDOW, result=AnyOf("missing|undecodable"))
    every = sum_by(rate(SOURCE_MESSAGES, window=WINDOW), *OF_A_SOURCE)
    return f"{sum_by(lost, *OF_A_SOURCE)} / {where_any(every)}"


COMPLETENESS_LOW = Alert(
    name="TierscopeCompletenessLow",
    expr=f"{_lost_ratio()} > {LOST_RATIO:g}",
    for_seconds=600,
    severity=Severity.WARNING,
    means="A source's stream keeps losing messages; every number made from it is too small.",
    summary="{{ $labels.source }} loses {{ $value | humanizePercentage }} of its messages.",
    description=(
        "{{ $labels.instance }} has missed or could not read more than 1% of what {{ $labels.source }} "
        "sent, for "
        "10 minutes. Counts made from this stream are too small by about that share, and advice may abstain."
    ),
    board="tierscope-pipeline",
)

STORE_FAILING = Alert(
    name="TierscopeStoreFailing",
    expr=f"{rate(STORE_REFUSALS, window=WINDOW)} > 0",
    for_seconds=300,
    severity=Severity.CRITICAL,
    means="The event store refuses to commit; history stops, and is lost once exporters' buffers are full.",
    summary="The event store of {{ $labels.instance }} refuses every commit.",
    description=(
        "The collector {{ $labels.instance }} has been refused by its store again and again for 5 minutes. "
        "Exporters "
        "hold what is not stored until their feed buffers are full; after that history is lost. Metrics and "
        "boards go on, recommendations and the regression detector do not."
    ),
    board="tierscope-pipeline",
)

COLLECTOR_LAGGING = Alert(
    name="TierscopeCollectorLagging",
    expr=f"{gauge(COMMIT_WAIT_SECONDS)} > {LONGEST_WAIT_SECONDS}",
    for_seconds=300,
    severity=Severity.WARNING,
    means="What the collector received waits long for its commit; advice and detector look at an old past.",
    summary="The collector {{ $labels.instance }} is {{ $value | humanizeDuration }} behind.",
    description=(
        "What the collector {{ $labels.instance }} received has waited more than a minute to be stored, for "
        "5 minutes. "
        "Recommendations, the regression detector and `tierscope report` see the past as it was then."
    ),
    board="tierscope-pipeline",
)

PIPELINE_ALERTS = (SOURCE_DOWN, COMPLETENESS_LOW, STORE_FAILING, COLLECTOR_LAGGING)
