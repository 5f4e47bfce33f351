"""Regressions of TTFT as regions on every board that knows endpoints, from the detector's metric."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery

from dashboards.queries.latency import regressions_of_owner
from dashboards.variables import DATASOURCE

STEP = "60s"
"""The detector looks every quarter of a minute, an alert waits a minute: finer regions tell nothing."""


def regression_annotation() -> AnnotationQuery:
    """A region from when a regression was found until it ended; the text has the minute it began."""
    return (
        AnnotationQuery()
        .name("TTFT regressions")
        .datasource(DATASOURCE)
        .enable(True)
        .hide(False)
        .icon_color("red")
        .expr(regressions_of_owner())
        .step(STEP)
        .title_format("TTFT of {{namespace}}/{{endpoint}} {{model}} {{workload}}")
        .text_format("{{cause}} {{tier}} ({{reason}}), since {{since}}")
        .tag_keys("cause,tier,reason")
    )
