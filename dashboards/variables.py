"""What a reader of a board may choose, and the matchers those choices become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh, VariableSort

from dashboards.promql import CLUSTER, AnyOf, Matcher
from dashboards.rules.recording import TENANT_RATE
from tierscope.registry.metrics import REQUEST_TOKENS

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

OWNER_LABELS = (CLUSTER, "namespace", "endpoint")
ENDPOINT_LABELS = (*OWNER_LABELS, "model")
ENGINE_LABELS = (*ENDPOINT_LABELS, "replica")
"""Each narrows the choices of those after it."""

HOLDER_LABELS = (CLUSTER, "holder")
"""What names a cache or a pool: another cluster may have one of the same name."""

HERE: Mapping[str, Matcher] = {CLUSTER: AnyOf(f"${CLUSTER}")}
"""Matchers for what no endpoint owns: caches of a node, pools, sources, collectors."""

OWNER: Mapping[str, Matcher] = {label: AnyOf(f"${label}") for label in OWNER_LABELS}
"""Matchers for metrics of an endpoint, whatever it serves."""

ENDPOINT: Mapping[str, Matcher] = {label: AnyOf(f"${label}") for label in ENDPOINT_LABELS}
"""Matchers for metrics of an endpoint's model."""

ENGINE: Mapping[str, Matcher] = {label: AnyOf(f"${label}") for label in ENGINE_LABELS}
"""Matchers for metrics of engines."""

L0_HOLDER: Mapping[str, Matcher] = {**HERE, "holder": AnyOf("$namespace/$endpoint/$replica/.*")}
"""An engine holds its own L0 and is named namespace/endpoint/replica/rank there."""

Variable = DatasourceVariable | QueryVariable


def datasource_variable() -> DatasourceVariable:
    """The Prometheus that is asked."""
    return DatasourceVariable("datasource").label("Data source").type("prometheus")


def board_variables() -> tuple[Variable, ...]:
    """The data source, then the engine's labels from the outermost inwards."""
    return (
        datasource_variable(),
        *label_variables(REQUEST_TOKENS.name, {label: label.capitalize() for label in ENGINE_LABELS}),
    )


def tenant_variable() -> QueryVariable:
    """The busiest tenants of the endpoints chosen: those of the recorded series, not all there are."""
    owner = {label: label for label in OWNER}
    (*_, tenant) = label_variables(TENANT_RATE.record, {**owner, "tenant": "Tenant"})
    return tenant


def label_variables(series: str, labels: Mapping[str, str]) -> Sequence[QueryVariable]:
    """A choice for each label of a series, under the name given; it starts at everything."""
    outer: list[str] = []
    found = []
    for label, name in labels.items():
        matchers = ",".join(f'{one}=~"${one}"' for one in outer)
        chosen = f"{series}{{{matchers}}}" if matchers else series
        found.append(
            QueryVariable(label)
            .label(name)
            .datasource(DATASOURCE)
            .query(f"label_values({chosen}, {label})")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(VariableOption(selected=True, text="All", value="$__all"))
        )
        outer.append(label)
    return found
