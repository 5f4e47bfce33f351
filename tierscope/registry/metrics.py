"""The metric table. `/metrics`, OTLP, dashboards, rules, docs and tests are made from these rows.

Naming rules are tests; the registry may add rows but never rename one (see `replaced_by`).
Labels: `namespace`, `endpoint`, `model`, `replica` and `rank` name an engine; `holder` names whoever
holds a tier's blocks (an engine for L0, a cache server for L1, a pool for L2); `source` is a source's id.
"""

from __future__ import annotations

from tierscope.registry.advice_metrics import ADVICE
from tierscope.registry.block_metrics import BLOCKS
from tierscope.registry.labels import ENGINE
from tierscope.registry.miss_metrics import MISSES
from tierscope.registry.pool_metrics import POOL
from tierscope.registry.regression_metrics import REGRESSION
from tierscope.registry.store_metrics import RETENTION
from tierscope.registry.tenant_metrics import TENANTS
from tierscope.registry.transfer_metrics import TRANSFERS
from tierscope.registry.types import Kind, Metric, MetricGroup

TTFT_BUCKETS_SECONDS = (
    0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0,
    2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
)  # fmt: skip
"""vLLM's own edges with finer steps from 0.1 s to 2.5 s, where TTFT targets usually lie."""

LOAD_BUCKETS_SECONDS = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip

REQUEST_TOKENS = Metric(
    name="tierscope_request_tokens_total",
    kind=Kind.COUNTER,
    labels=(*ENGINE, "tier"),
    help="Prompt tokens of requests that reached their first token, by where their KV values came from.",
    answers="Which tier served each token, and how many were computed again?",
)
ENGINE_TOKENS = Metric(
    name="tierscope_engine_tokens_total",
    kind=Kind.COUNTER,
    labels=(*ENGINE, "tier"),
    help="The same split as the engine's own counters tell it, since this exporter first read them.",
    answers="Do our per-request records and the engine's own counters agree?",
)
REQUESTS = Metric(
    name="tierscope_requests_total",
    kind=Kind.COUNTER,
    labels=(*ENGINE, "status"),
    help="Admissions by what became of them: served, aborted, readmitted, unresolved.",
    answers="How much traffic do the token sums stand for, and what is left out of them?",
    allow=("no_unit",),
)
TIME_TO_FIRST_TOKEN = Metric(
    name="tierscope_time_to_first_token_seconds",
    kind=Kind.HISTOGRAM,
    labels=(*ENGINE, "served_from"),
    help="Time from arrival to first token, by the outermost tier that served any of the prompt.",
    answers="How long do requests wait when L0, L1 or L2 served them, and when nothing did?",
    buckets=TTFT_BUCKETS_SECONDS,
)
LOAD_SECONDS = Metric(
    name="tierscope_load_seconds",
    kind=Kind.HISTOGRAM,
    labels=(*ENGINE, "tier"),
    help="Time a request waited for KV values to be loaded, by the outermost tier it loaded from.",
    answers="Is a tier fast enough to be worth loading from?",
    buckets=LOAD_BUCKETS_SECONDS,
)
LOOKUP_TOKENS = Metric(
    name="tierscope_lookup_tokens_total",
    kind=Kind.COUNTER,
    labels=("tier", "holder", "result"),
    help="Prompt tokens looked up in a tier by result: hit, miss. Lower tiers see what upper ones hold too.",
    answers="Which tier could serve the prefix, and which only adds a lookup?",
)
STORED_BLOCKS = Metric(
    name="tierscope_stored_blocks_total",
    kind=Kind.COUNTER,
    labels=("tier", "holder"),
    help="Blocks stored in a tier: GPU blocks in L0, chunks in L1 and L2.",
    answers="How fast does each tier turn over?",
)
EVICTED_BLOCKS = Metric(
    name="tierscope_evicted_blocks_total",
    kind=Kind.COUNTER,
    labels=("tier", "holder", "reason"),
    help="Blocks that left a tier, by reason: capacity, demoted (a lower tier has them), clear, delete, "
    "after_read (loaded for one read only), restart, pool_removed, unknown.",
    answers="Is a tier too small, or was it emptied?",
)
FAILED_BLOCKS = Metric(
    name="tierscope_failed_blocks_total",
    kind=Kind.COUNTER,
    labels=("tier", "holder"),
    help="Blocks a tier could not take, whatever it answered to the one who stored them.",
    answers="Does a full tier lose what it claims to have stored?",
)
CAPACITY_BYTES = Metric(
    name="tierscope_capacity_bytes",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Size of a tier.",
    answers="How large is each tier today?",
)
USED_BYTES = Metric(
    name="tierscope_used_bytes",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Bytes of a tier that hold blocks, whether or not a request uses them now.",
    answers="How full is each tier?",
)
CAPACITY_BLOCKS = Metric(
    name="tierscope_capacity_blocks",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Size of a tier in its own blocks.",
    answers="How many blocks could L0 hold?",
)
RESIDENT_BLOCKS = Metric(
    name="tierscope_resident_blocks",
    kind=Kind.GAUGE,
    labels=("tier", "holder"),
    help="Distinct blocks resident in a tier, from its events or its own report.",
    answers="How much of L0 holds a prefix that could be hit?",
)
POOL_FILES = Metric(
    name="tierscope_pool_files",
    kind=Kind.GAUGE,
    labels=("holder", "kind", "model"),
    help="Files in a pool's directory by kind (chunk, empty, temp, dead_temp, metadata, foreign) and model.",
    answers="Whose chunks fill the pool, and what lies there that no cache can use?",
    allow=("no_unit",),
)
POOL_FILE_BYTES = Metric(
    name="tierscope_pool_file_bytes",
    kind=Kind.GAUGE,
    labels=("holder", "kind", "model"),
    help="Bytes of the files in a pool's directory by kind and model.",
    answers="How many bytes of the pool belong to each model, and how many are wasted?",
)
POOL_STORED_BLOCKS = Metric(
    name="tierscope_pool_stored_blocks_total",
    kind=Kind.COUNTER,
    labels=("holder", "model"),
    help="Chunks whose files came into a pool's directory between two scans.",
    answers="Which model writes to the pool?",
)
POOL_REMOVED_BLOCKS = Metric(
    name="tierscope_pool_removed_blocks_total",
    kind=Kind.COUNTER,
    labels=("holder", "model"),
    help="Chunks that lost a file in a pool's directory between two scans.",
    answers="Which model's chunks does the pool remove, although no cache reports an eviction?",
)
POOL_SCAN_SECONDS = Metric(
    name="tierscope_pool_scan_seconds",
    kind=Kind.GAUGE,
    labels=("holder",),
    help="How long the last complete scan of a pool's directory took, pauses included.",
    answers="Is the scan slower than the pool changes?",
)
POOL_SCAN_AGE_SECONDS = Metric(
    name="tierscope_pool_scan_age_seconds",
    kind=Kind.GAUGE,
    labels=("holder",),
    help="Time since the last complete scan of a pool's directory.",
    answers="How old is what we know of the pool's files?",
)
COMPLETENESS = Metric(
    name="tierscope_completeness_ratio",
    kind=Kind.GAUGE,
    labels=("source",),
    help="Share of a source's stream that was received and understood since this process began.",
    answers="How much of the truth do the other numbers rest on?",
)
SOURCE_UP = Metric(
    name="tierscope_source_up",
    kind=Kind.GAUGE,
    labels=("source",),
    help="1 if the source's last reading succeeded and is recent, else 0.",
    answers="Which tier can we not see right now?",
    allow=("no_unit",),
)
SOURCE_READ_SECONDS = Metric(
    name="tierscope_source_read_seconds",
    kind=Kind.GAUGE,
    labels=("source",),
    help="How long the last reading of a source took, whether or not it succeeded.",
    answers="Is a source slow to answer?",
)
SOURCE_MESSAGES = Metric(
    name="tierscope_source_messages_total",
    kind=Kind.COUNTER,
    labels=("source", "result"),
    help="Units of a source's stream by result: received, missing, undecodable.",
    answers="What did we lose, and where?",
    allow=("no_unit",),
)
SOURCE_RESTARTS = Metric(
    name="tierscope_source_restarts_total",
    kind=Kind.COUNTER,
    labels=("source",),
    help="Restarts of a source seen from its sequence numbers or counters.",
    answers="Did an engine lose its L0 because it restarted?",
    allow=("no_unit",),
)
UNKNOWN_INPUT = Metric(
    name="tierscope_unknown_input_total",
    kind=Kind.COUNTER,
    labels=("source", "what"),
    help="Input we could not place: an unknown event tag, medium, record type or metric line.",
    answers="Does an engine speak a newer dialect than we know?",
    allow=("no_unit",),
)
FINDING = Metric(
    name="tierscope_finding",
    kind=Kind.GAUGE,
    labels=("source", "kind", "severity"),
    help="1 for each thing found wrong with a source; the log says which number is suspect, and what "
    "is used instead.",
    answers="Which numbers of a source are known to lie?",
    allow=("no_unit",),
)
FEED_BATCHES = Metric(
    name="tierscope_feed_batches_total",
    kind=Kind.COUNTER,
    labels=("exporter",),
    help="Batches published on the feed.",
    answers="Does the exporter still hand on what it sees?",
    allow=("no_unit",),
)
STORED_ROWS = Metric(
    name="tierscope_stored_rows_total",
    kind=Kind.COUNTER,
    labels=("table",),
    help="Rows committed to the event store by this collector.",
    answers="Does the collector keep up?",
    allow=("no_unit",),
)
COMMIT_WAIT_SECONDS = Metric(
    name="tierscope_commit_wait_seconds",
    kind=Kind.GAUGE,
    labels=(),
    help="How long the oldest received batch that is not in the event store has waited; 0 when none waits.",
    answers="How far behind the present is the event store?",
)
STORE_REFUSALS = Metric(
    name="tierscope_store_refusals_total",
    kind=Kind.COUNTER,
    labels=(),
    help="Attempts to commit that the event store refused; each is tried again.",
    answers="Does the event store still take what it is given?",
    allow=("no_unit",),
)
STORE_BYTES = Metric(
    name="tierscope_store_bytes",
    kind=Kind.GAUGE,
    labels=(),
    help="Size of the event store on disk.",
    answers="How fast does the history grow?",
)
KUBE_WATCH_UP = Metric(
    name="tierscope_kube_watch_up",
    kind=Kind.GAUGE,
    labels=("resource",),
    help="1 while what is held of a kind of Kubernetes object is up to date, 0 while it cannot be watched.",
    answers="Is the deployment that advice rests on, or an exporter's list of pods, what runs now?",
    allow=("no_unit",),
)
DROPPED_SAMPLES = Metric(
    name="tierscope_dropped_samples_total",
    kind=Kind.COUNTER,
    labels=("reason",),
    help="Samples left out of a page or push: not_in_table, bad_labels, bad_value, duplicate, read_failed.",
    answers="Is a number missing here because we made it wrongly?",
    allow=("no_unit",),
)
METRIC_PUSHES = Metric(
    name="tierscope_metric_pushes_total",
    kind=Kind.COUNTER,
    labels=("result",),
    help="Pushes of every metric over OTLP by what became of them: exported, not_exported.",
    answers="Does whoever is sent our metrics take them?",
    allow=("no_unit",),
)
SPANS_BY_RESULT = Metric(
    name="tierscope_spans_total",
    kind=Kind.COUNTER,
    labels=("result",),
    help="Spans by what became of them: exported, not_sampled, not_taken (queue full), not_exported.",
    answers="Do traces show every request, or did their receiver fall behind?",
    allow=("no_unit",),
)

GROUPS: tuple[MetricGroup, ...] = (
    MetricGroup(
        title="Requests",
        published_by="`tierscope export`",
        metrics=(REQUEST_TOKENS, ENGINE_TOKENS, REQUESTS, TIME_TO_FIRST_TOKEN, LOAD_SECONDS),
    ),
    MetricGroup(
        title="Tiers",
        published_by="`tierscope export`",
        metrics=(
            LOOKUP_TOKENS,
            STORED_BLOCKS,
            EVICTED_BLOCKS,
            FAILED_BLOCKS,
            CAPACITY_BYTES,
            USED_BYTES,
            CAPACITY_BLOCKS,
            RESIDENT_BLOCKS,
        ),
    ),
    MetricGroup(
        title="The pool's directory",
        published_by="`tierscope export` where a mount is scanned",
        metrics=(
            POOL_FILES,
            POOL_FILE_BYTES,
            POOL_STORED_BLOCKS,
            POOL_REMOVED_BLOCKS,
            POOL_SCAN_SECONDS,
            POOL_SCAN_AGE_SECONDS,
        ),
    ),
    POOL,
    BLOCKS,
    TRANSFERS,
    MetricGroup(
        title="Sources",
        published_by="`tierscope export` for what it reads, `tierscope collect` for its feeds",
        metrics=(
            COMPLETENESS,
            SOURCE_UP,
            SOURCE_READ_SECONDS,
            SOURCE_MESSAGES,
            SOURCE_RESTARTS,
            UNKNOWN_INPUT,
            FINDING,
        ),
    ),
    MetricGroup(
        title="Feed, store and advice",
        published_by="`tierscope export` for the feed, `tierscope collect` for the rest",
        metrics=(
            FEED_BATCHES,
            STORED_ROWS,
            COMMIT_WAIT_SECONDS,
            STORE_REFUSALS,
            STORE_BYTES,
            *RETENTION,
            *ADVICE,
            KUBE_WATCH_UP,
        ),
    ),
    TENANTS,
    MISSES,
    REGRESSION,
    MetricGroup(
        title="Our own telemetry",
        published_by="`tierscope export` for spans and pushes, every process for its page",
        metrics=(SPANS_BY_RESULT, METRIC_PUSHES, DROPPED_SAMPLES),
    ),
)
"""Every metric by subject, in the order a request travels and then the pipeline."""

METRICS: tuple[Metric, ...] = tuple(metric for group in GROUPS for metric in group.metrics)
"""Every metric, in the same order."""
