"""Whether we ourselves see, keep and tell everything."""

from __future__ import annotations

from dashboards.promql import gauge, rate, sum_by
from dashboards.queries.sources import by_kind
from dashboards.variables import HERE
from tierscope.registry.metrics import (
    COMMIT_WAIT_SECONDS,
    DROPPED_SAMPLES,
    FEED_BATCHES,
    FINDING,
    KUBE_WATCH_UP,
    METRIC_PUSHES,
    SOURCE_MESSAGES,
    SOURCE_READ_SECONDS,
    SOURCE_RESTARTS,
    SPANS_BY_RESULT,
    STORE_BYTES,
    STORE_REFUSALS,
    STORED_ROWS,
    UNKNOWN_INPUT,
)
from tierscope.registry.store_metrics import (
    RETIRED_ROWS,
    STORE_HISTORY_SECONDS,
    STORE_LIMIT_BYTES,
    STORE_USED_BYTES,
)

PROCESS = ("instance",)


def received_by_kind() -> str:
    """Units of streams a second that arrived and were understood."""
    return sum_by(by_kind(rate(SOURCE_MESSAGES, HERE, result="received")), "kind")


def slowest_read() -> str:
    """How long the slowest source of each kind takes to answer."""
    return f"max by (kind) ({by_kind(gauge(SOURCE_READ_SECONDS, HERE))})"


def restarts() -> str:
    """Restarts of sources a second, by kind, where there are any."""
    return f"{sum_by(by_kind(rate(SOURCE_RESTARTS, HERE)), 'kind')} > 0"


def unknown_input() -> str:
    """Input a second that no reader could place, where there is any."""
    return f"{sum_by(by_kind(rate(UNKNOWN_INPUT, HERE)), 'kind', 'what')} > 0"


def findings(most: int) -> str:
    """What is found wrong with sources now, so many of it by name."""
    return f"topk({most}, max by (source, kind, severity) ({gauge(FINDING, HERE)}) > 0)"


def feed_batches() -> str:
    """Batches a second that all exporters publish."""
    return sum_by(rate(FEED_BATCHES, HERE))


def silent_exporters() -> str:
    """Exporters that publish nothing."""
    return f"{sum_by(rate(FEED_BATCHES, HERE), 'exporter')} == 0"


def commit_wait() -> str:
    """How long the oldest batch of each collector has waited for its commit."""
    return f"max by (instance) ({gauge(COMMIT_WAIT_SECONDS, HERE)})"


def refusals() -> str:
    """Commits a second that a store refused."""
    return sum_by(rate(STORE_REFUSALS, HERE), *PROCESS)


def stored_rows() -> str:
    """Rows a second that were committed, by table."""
    return sum_by(rate(STORED_ROWS, HERE), "table")


def retired_rows() -> str:
    """Rows a second that age or size made into sums, or deleted, by table."""
    return sum_by(rate(RETIRED_ROWS, HERE), "table")


def store_bytes() -> str:
    """Size of each store on disk."""
    return f"max by (instance) ({gauge(STORE_BYTES, HERE)})"


def store_used_bytes() -> str:
    """Bytes of each store that hold something."""
    return f"max by (instance) ({gauge(STORE_USED_BYTES, HERE)})"


def store_limit_bytes() -> str:
    """Most bytes that each store may use."""
    return f"max by (instance) ({gauge(STORE_LIMIT_BYTES, HERE)})"


def store_history() -> str:
    """How far back each stage of history reaches."""
    return f"min by (stage) ({gauge(STORE_HISTORY_SECONDS, HERE)})"


def spans_by_result() -> str:
    """Spans a second by what became of them."""
    return sum_by(rate(SPANS_BY_RESULT, HERE), "result")


def pushes_by_result() -> str:
    """Pushes of metrics over OTLP a second, by what became of them."""
    return sum_by(rate(METRIC_PUSHES, HERE), "result")


def dropped_samples() -> str:
    """Samples a second left out of a page or push, by reason."""
    return sum_by(rate(DROPPED_SAMPLES, HERE), "reason")


def kube_watch() -> str:
    """1 where every collector's view of a kind of Kubernetes object is up to date."""
    return f"min by (resource) ({gauge(KUBE_WATCH_UP, HERE)})"
