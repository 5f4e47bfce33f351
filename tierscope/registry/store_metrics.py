"""Metrics of the event store's past: what it uses, what it may use, how far back it reaches."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric

STORE_USED_BYTES = Metric(
    name="tierscope_store_used_bytes",
    kind=Kind.GAUGE,
    labels=(),
    help="Bytes of the event store's file that hold something; the rest of the file is used again.",
    answers="How much of its limit does the history use?",
)
STORE_LIMIT_BYTES = Metric(
    name="tierscope_store_limit_bytes",
    kind=Kind.GAUGE,
    labels=(),
    help="Most bytes the event store may use before its oldest hours are reduced.",
    answers="When does the history begin to lose detail for its size?",
)
STORE_HISTORY_SECONDS = Metric(
    name="tierscope_store_history_seconds",
    kind=Kind.GAUGE,
    labels=("stage",),
    help="How far back the event store reaches, by stage: rows (raw) and hourly sums (hourly).",
    answers="How far back can be asked, and in which detail?",
)
RETIRED_ROWS = Metric(
    name="tierscope_retired_rows_total",
    kind=Kind.COUNTER,
    labels=("table",),
    help="Rows of the event store that age or size made into sums, or deleted.",
    answers="Is the past being reduced?",
    allow=("no_unit",),
)

RETENTION: tuple[Metric, ...] = (STORE_USED_BYTES, STORE_LIMIT_BYTES, STORE_HISTORY_SECONDS, RETIRED_ROWS)
