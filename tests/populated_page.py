"""A page with every row of the metric table on it, as a small deployment would fill it.

Two replicas of one endpoint, one of another; three tiers; counters grow by one a second for each
label set, money and the like more slowly, gauges are still. `vllm_hook` of one replica cannot be read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

from tierscope.analytics.misses import Cause as MissCause
from tierscope.domain.events import EvictionReason, TransferAction
from tierscope.domain.requests import RequestStatus
from tierscope.domain.tiers import Origin, Tier
from tierscope.registry.advice_metrics import ADVISED_COST, ROUTED_HIT_RATIO
from tierscope.registry.metrics import (
    CAPACITY_BLOCKS,
    CAPACITY_BYTES,
    COMPLETENESS,
    DROPPED_SAMPLES,
    ENGINE_TOKENS,
    LOOKUP_TOKENS,
    METRICS,
    REQUEST_TOKENS,
    REQUESTS,
    RESIDENT_BLOCKS,
    SOURCE_MESSAGES,
    SOURCE_UP,
    TIME_TO_FIRST_TOKEN,
    USED_BYTES,
)
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS
from tierscope.registry.pool_metrics import TTL, WORKERS
from tierscope.registry.regression_metrics import TTFT_REGRESSION, TTFT_REGRESSION_SECONDS
from tierscope.registry.tenant_metrics import FORMER_TENANT_TOKENS, TENANT_TOKENS
from tierscope.registry.transfer_metrics import FAILED_TRANSFERS
from tierscope.registry.types import Exemplar, HistogramValue, Kind, Metric, Sample

ENGINES = {
    ("ns", "chat", "m/8b", "chat-0", "0"),
    ("ns", "chat", "m/8b", "chat-1", "0"),
    ("ns", "rag", "n", "rag-0", "0"),
}
HOLDERS = {
    Tier.L0: tuple(
        "/".join((namespace, endpoint, replica, rank)) for namespace, endpoint, _, replica, rank in ENGINES
    ),
    Tier.L1: ("node-1", "node-2"),
    Tier.L2: ("pool",),
}
SOURCES = (
    "vllm_metrics:ns/chat/chat-0/0",
    "vllm_hook:ns/chat/chat-1/0",
    "lmcache_metrics:node-1",
    "curvine_master:pool",
    "pool_mount:pool",
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
DOWN = "vllm_hook:ns/chat/chat-1/0"

LABEL_VALUES: dict[str, tuple[str, ...]] = {
    "source": SOURCES,
    "what": ("event_tag",),
    "kind": ("chunk", "temp"),
    "severity": ("warning",),
    "model": ("m/8b", "other"),
    "exporter": ("node-1",),
    "table": ("requests", "block_events"),
    "namespace": ("ns",),
    "endpoint": ("chat", "rag"),
    "served_from": tuple(Origin),
    "tier": tuple(Tier),
    "reason": tuple(EvictionReason),
    "status": ("recommend",),
    "stage": ("raw", "hourly"),
    "result": ("sent", "dropped"),
    "adapter": ("fs",),
    "action": tuple(TransferAction),
    "worker": ("worker-0",),
    "storage": ("ssd",),
    "mark": ("high", "low"),
    "seen_by": ("worker", "fuse"),
    "process": ("worker-0",),
    "direction": ("read", "write"),
    "path": ("local", "remote"),
    "operation": ("Lookup", "Write"),
    "errno": ("ENOENT",),
    "cause": ("mix", "tier_share", "tier_speed", "queue", "engine"),
    "workload": ("chat",),
    "tenant": ("00f3a1b2c3d4e5f6", "other", "none"),
    "since": ("2026-01-01T10:05Z",),
    "state": ("learning", "watching", "raised"),
    "resource": ("pods",),
    "scale": ("0.5", "1", "2"),
    "point": ("current", "recommended"),
    "currency": ("EUR",),
}
"""What a label holds unless the metric's own entry below says otherwise."""

OWN_VALUES: dict[tuple[Metric, str], tuple[str, ...]] = {
    (REQUEST_TOKENS, "tier"): tuple(Origin),
    (ENGINE_TOKENS, "tier"): tuple(Origin),
    (TENANT_TOKENS, "tier"): tuple(Origin),
    (FORMER_TENANT_TOKENS, "tier"): tuple(Origin),
    (MISS_TOKENS, "cause"): tuple(MissCause),
    (MISS_SECONDS, "cause"): tuple(MissCause),
    (MISS_COST, "cause"): tuple(MissCause),
    (ROUTED_HIT_RATIO, "point"): ("best", "predicted", "delivered"),
    (FAILED_TRANSFERS, "reason"): ("l1_full", "expired", "l1_oom", "l1_contended", "not_found"),
    (TTL, "action"): ("delete",),
    (WORKERS, "status"): ("live", "lost"),
    (TTFT_REGRESSION, "reason"): ("evictions", "routing"),
    (TTFT_REGRESSION_SECONDS, "reason"): ("evictions", "routing"),
    (REQUESTS, "status"): tuple(RequestStatus),
    (LOOKUP_TOKENS, "result"): ("hit", "miss"),
    (SOURCE_MESSAGES, "result"): ("received", "missing", "undecodable"),
}

BY_POINT: dict[Metric, dict[str, float]] = {
    ROUTED_HIT_RATIO: {"best": 0.7, "predicted": 0.6, "delivered": 0.4},
    ADVISED_COST: {"current": 9.2, "recommended": 7.4},
}
A_SECOND: dict[Metric, float] = {MISS_SECONDS: 0.1, MISS_COST: 0.0002}
"""How fast counters grow that do not by one."""
GAUGES: dict[Metric, float] = {
    CAPACITY_BYTES: 1000.0,
    USED_BYTES: 700.0,
    CAPACITY_BLOCKS: 1000.0,
    RESIDENT_BLOCKS: 600.0,
    COMPLETENESS: 0.99,
    TTFT_REGRESSION: 1.3,
}


def populated_samples(elapsed_seconds: float) -> Iterator[Sample]:
    """Every metric but the page's own, with every label value above, as of so long after the start."""
    for metric in METRICS:
        if metric is not DROPPED_SAMPLES:
            for labels in label_sets(metric):
                yield Sample(metric, labels, _value(metric, labels, elapsed_seconds))


def label_sets(metric: Metric) -> Iterator[tuple[str, ...]]:
    """Every set of label values of a metric; engines and holders keep what belongs together."""
    engine = metric.labels[:5] == ("namespace", "endpoint", "model", "replica", "rank")
    rest = metric.labels[5:] if engine else tuple(label for label in metric.labels if label != "holder")
    choices = [OWN_VALUES.get((metric, label)) or LABEL_VALUES[label] for label in rest]
    for values in product(*choices):
        if engine:
            yield from ((*one, *values) for one in sorted(ENGINES))
        elif "holder" in metric.labels:
            at = metric.labels.index("holder")
            tier = Tier(values[0]) if "tier" in metric.labels else Tier.L2
            yield from ((*values[:at], holder, *values[at:]) for holder in HOLDERS[tier])
        else:
            yield values


def _value(metric: Metric, labels: tuple[str, ...], elapsed_seconds: float) -> float | HistogramValue:
    if metric.kind is Kind.COUNTER:
        return A_SECOND.get(metric, 1.0) * (5.0 + elapsed_seconds)
    if metric.kind is Kind.HISTOGRAM:
        counts = [0] * (len(metric.buckets) + 1)
        counts[3] = 5 + int(elapsed_seconds * 10)
        seen = [None] * len(counts)
        if metric is TIME_TO_FIRST_TOKEN:
            seen[3] = Exemplar(TRACE, metric.buckets[3], time.time())
        return HistogramValue(tuple(counts), counts[3] * metric.buckets[3], tuple(seen))
    if metric is SOURCE_UP:
        return float(labels != (DOWN,))
    if metric in BY_POINT:
        return BY_POINT[metric][labels[metric.labels.index("point")]]
    return GAUGES.get(metric, 1.0)
