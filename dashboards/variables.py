"""What a reader of a board may choose, and the matchers those choices become."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh, VariableSort

from dashboards.promql import AnyOf, Matcher
from tierscope.registry.metrics import REQUEST_TOKENS

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

ENGINE_LABELS = ("namespace", "endpoint", "model", "replica")
"""Each narrows the choices of those after it."""

ENGINE: Mapping[str, Matcher] = {label: AnyOf(f"${label}") for label in ENGINE_LABELS}
"""Matchers for metrics of engines."""

L0_HOLDER = AnyOf("$namespace/$endpoint/$replica/.*")
"""An engine holds its own L0 and is named namespace/endpoint/replica/rank there."""


def board_variables() -> tuple[DatasourceVariable | QueryVariable, ...]:
    """The data source, then the engine's labels from the outermost inwards."""
    datasource = DatasourceVariable("datasource").label("Data source").type("prometheus")
    return (datasource, *(_engine_label(label) for label in ENGINE_LABELS))


def _engine_label(label: str) -> QueryVariable:
    outer = ENGINE_LABELS[: ENGINE_LABELS.index(label)]
    matchers = ",".join(f'{one}=~"${one}"' for one in outer)
    series = f"{REQUEST_TOKENS.name}{{{matchers}}}" if matchers else REQUEST_TOKENS.name
    return (
        QueryVariable(label)
        .label(label.capitalize())
        .datasource(DATASOURCE)
        .query(f"label_values({series}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )
