"""The tables of the event store: the one place their columns are named, typed and explained.

DDL, migrations, Arrow schemas and docs/reference/store.md are made from these rows. People write SQL
against the names: a release may add tables and columns, never rename or drop one. What is added says in
`since` with which version of the tables it came: one more than `VERSION` was.
"""

from __future__ import annotations

from tierscope.storage.columns import (
    AT,
    DAY,
    EARLIER,
    ENDPOINT,
    ENGINE,
    FEED,
    HOLDER,
    NOT_SAID,
    NOT_SAID_OR_EARLIER,
    SINCE,
    SPLIT,
    Column,
    Table,
)
from tierscope.storage.hourly import HOURLY_BLOCKS, HOURLY_REQUESTS, RETENTION
from tierscope.storage.pool_tables import POOL_FILES, POOL_TRAFFIC

REQUESTS = Table(
    "requests",
    "One admission of one request into one engine. Token sums are over `status = 'served'` (first "
    "admission, first token reached). The chain of block hashes is in delta form: the first "
    "`common_blocks` blocks are those of row `parent_id`, then come `new_hashes`. A parent always lies in "
    "the same `hour` of the same engine and model; `block_accesses` puts chains together again.",
    (
        Column("id", "UBIGINT", "Row id: 64 bits made of engine, request id, attempt and arrival."),
        FEED,
        Column("hour", "INTEGER", "Hour of the admission: `admitted_unix_seconds // 3600`."),
        DAY,
        *ENGINE,
        Column("request_id", "VARCHAR", "The engine's request id."),
        Column("attempt", "INTEGER", "0 for the first admission, then one more a preemption."),
        Column("status", "VARCHAR", "`served`, `aborted`, `readmitted` or `unresolved`."),
        Column("arrived_unix_seconds", "DOUBLE", "When the request reached the engine."),
        Column(
            "admitted_unix_seconds", "DOUBLE", "When its blocks were looked up: the time of its accesses."
        ),
        *SPLIT,
        Column(
            "external_reason", "VARCHAR", "Why tokens are external and of no known tier.", "none are external"
        ),
        Column("queue_seconds", "DOUBLE", "Wait before the admission.", NOT_SAID),
        Column("load_seconds", "DOUBLE", "Wait for loads from lower tiers.", "no loads, or not reported"),
        Column(
            "ttft_seconds", "DOUBLE", "Arrival to first token.", "no first token, or the engine does not say"
        ),
        Column("session_hash", "UBIGINT", "Keyed hash of the session.", "no session is known"),
        Column("salt_hash", "UBIGINT", "Keyed hash of the cache salt.", "no salt"),
        Column("trace_id", "VARCHAR", "W3C trace id of the caller, hexadecimal.", "the caller sent none"),
        Column("block_tokens", "INTEGER", "Tokens a block."),
        Column("chunk_tokens", "INTEGER", "Tokens a chunk of the lower tiers.", NOT_SAID),
        Column(
            "asks_cache",
            "BOOLEAN",
            "False where the request looks in no cache by its nature (prompt_logprobs, some pooling).",
            EARLIER,
            since=2,
        ),
        Column(
            "adapter",
            "VARCHAR",
            "Name of the LoRA adapter that was asked for.",
            f"the model itself, or {EARLIER}",
            since=8,
        ),
        Column(
            "cache_server",
            "VARCHAR",
            "The cache server that was asked for what L0 lacks.",
            f"none told its lookup, or {EARLIER}",
            since=8,
        ),
        Column(
            "first_chunk_hash",
            "UBIGINT",
            "That server's name of the prompt's first chunk. Equal prompts with two names: two hash seeds.",
            f"no whole chunk was looked up, or {EARLIER}",
            since=8,
        ),
        Column("blocks", "INTEGER", "Full blocks of the prompt: the length of its chain."),
        Column("parent_id", "UBIGINT", "The row whose chain this one starts with.", "the chain is whole"),
        Column("common_blocks", "INTEGER", "Blocks shared with the start of the parent's chain."),
        Column("new_hashes", "UBIGINT[]", "Hashes of the blocks after the common ones."),
    ),
    partitions=("day", "model"),
)
BLOCK_EVENTS = Table(
    "block_events",
    "Blocks stored in or evicted from a tier, together, at one time.",
    (
        Column(
            "id",
            "UBIGINT",
            "64 bits made of the holder, the time and the place in the holder's stream, in other ways by "
            "other releases.",
        ),
        FEED,
        *HOLDER,
        Column("action", "VARCHAR", "`stored` or `evicted`."),
        Column(
            "reason",
            "VARCHAR",
            "Why blocks left: `capacity`, `demoted`, `clear`, `delete`, `after_read`, `restart`, "
            "`pool_removed` or `unknown`.",
            "they were stored",
        ),
        Column("at_unix_seconds", "DOUBLE", "When it happened, by the holder's clock."),
        Column("block_tokens", "INTEGER", "Tokens a block.", NOT_SAID),
        Column("parent_hash", "UBIGINT", "The block before the first one.", "a root, or not said"),
        Column("blocks", "INTEGER", "How many blocks."),
        Column("block_hashes", "UBIGINT[]", "The blocks, in prefix order where stored."),
        Column(
            "sequence",
            "BIGINT",
            "Number of the message in the holder's stream that told it; one life of it counts up from 0.",
            f"no message did, or {EARLIER}",
            since=7,
        ),
        Column(
            "ordinal",
            "INTEGER",
            "Place of the change in its message: events of one time are in the order of this.",
            EARLIER,
            since=7,
        ),
        DAY,
    ),
    partitions=("day",),
)
TIER_SAMPLES = Table(
    "tier_samples",
    "One reading of how full a tier is. Each exporter that reads a shared tier writes its own rows.",
    (
        FEED,
        *HOLDER,
        Column("at_unix_seconds", "DOUBLE", "When it was read."),
        Column("capacity_bytes", "DOUBLE", "Size in bytes.", NOT_SAID),
        Column("used_bytes", "DOUBLE", "Bytes that hold blocks.", NOT_SAID),
        Column("pinned_bytes", "DOUBLE", "Bytes that cannot be evicted now.", NOT_SAID),
        Column("capacity_blocks", "BIGINT", "Size in blocks of `block_tokens`.", NOT_SAID),
        Column("used_blocks", "BIGINT", "Blocks of `block_tokens` held.", NOT_SAID),
        Column("block_tokens", "INTEGER", "Tokens a block (a chunk in L1 and L2).", NOT_SAID),
        Column("pinned_blocks", "BIGINT", "Blocks that requests use now.", NOT_SAID_OR_EARLIER, since=2),
        Column(
            "duplicate_blocks",
            "BIGINT",
            "Copies of used blocks beyond the first.",
            NOT_SAID_OR_EARLIER,
            since=2,
        ),
        Column(
            "orphan_blocks",
            "BIGINT",
            "Used blocks that no request can hit: an ancestor is gone.",
            NOT_SAID_OR_EARLIER,
            since=2,
        ),
    ),
)
TIER_ACTIVITY = Table(
    "tier_activity",
    "What a cache server's counters grew by in an interval; resets are bridged. Each exporter that reads a "
    "shared tier writes its own rows: sum over one `feed`.",
    (
        FEED,
        *HOLDER,
        SINCE,
        AT,
        Column("lookup_hit_tokens", "BIGINT", "Tokens looked up and found.", NOT_SAID),
        Column("lookup_miss_tokens", "BIGINT", "Tokens looked up and not found.", NOT_SAID),
        Column("stored_blocks", "BIGINT", "Blocks (chunks) stored.", NOT_SAID),
        Column("evicted_blocks", "BIGINT", "Blocks (chunks) evicted.", NOT_SAID),
        Column("failed_blocks", "BIGINT", "Blocks (chunks) it could not take.", NOT_SAID),
    ),
)
TIER_TRANSFERS = Table(
    "tier_transfers",
    "One task of a cache server that stored blocks in a tier or loaded them from it, or what of one failed; "
    "of the past that was thinned, all of an hour. "
    "An exporter that restarts tells the recent past again: sum over one `feed`.",
    (
        FEED,
        *HOLDER,
        Column("adapter", "VARCHAR", "Name of the L2 adapter.", "the tier has none"),
        Column("action", "VARCHAR", "`store` or `load`."),
        Column("started_unix_seconds", "DOUBLE", "When the task began.", "not seen, or an hour of tasks"),
        Column("at_unix_seconds", "DOUBLE", "When it ended."),
        Column("moved_blocks", "BIGINT", "Objects moved: a chunk has one for each KV rank."),
        Column("failed_blocks", "BIGINT", "Objects that were to be moved and were not."),
        Column("size_bytes", "BIGINT", "Bytes moved.", NOT_SAID),
        Column("reason", "VARCHAR", "The server's word for why they were not.", NOT_SAID),
    ),
    since=4,
)
ENGINE_TOKENS = Table(
    "engine_tokens",
    "What an engine's own prompt counters grew by in an interval; resets are bridged.",
    (FEED, *ENGINE, SINCE, AT, *SPLIT),
)
COUNTER_STATES = Table(
    "counter_states",
    "What counters that a source keeps itself stood at in the last entry of them: the next entry adds what "
    "is more than that, whichever run of an exporter tells it.",
    (
        Column("exporter", "VARCHAR", "Name of the exporter that reads them."),
        Column("kind", "VARCHAR", "`engine_tokens`, or a tier's lookups: `l0_lookups`."),
        Column("owner", "VARCHAR", "Whose counters they are: an engine, or who holds the tier."),
        Column("model", "VARCHAR", "The served model's name; empty where they are not of one model."),
        Column("began_unix_seconds", "DOUBLE", "When they began, as their source says."),
        Column("at_unix_seconds", "DOUBLE", "When they were read."),
        Column("counts", "BIGINT[]", "The parts of the split in its order, or tokens hit and missed."),
    ),
    since=7,
)
COVERAGE = Table(
    "coverage",
    "How much of a source's stream was received in an interval, in units of that stream. Rows of kind "
    "`feed` are the collector's own: batches from an exporter. Complete intervals of a run of a source that "
    "begin in the same minute are one row; an interval that lost something is a row of its own.",
    (
        FEED,
        Column("kind", "VARCHAR", "What the source speaks, e.g. `vllm_hook`, `feed`."),
        Column("owner", "VARCHAR", "Whose source it is: an engine, a server, a pool or an exporter."),
        Column("incarnation", "BIGINT", "Changes when the source restarts."),
        SINCE,
        AT,
        Column("received", "BIGINT", "Units received and understood."),
        Column("missing", "BIGINT", "Units known to be lost."),
        Column("undecodable", "BIGINT", "Units received and not understood."),
        Column("restarts", "BIGINT", "Restarts of the source seen in the interval."),
        Column("first_sequence", "BIGINT", "First sequence number of the row.", "nothing came"),
        Column("last_sequence", "BIGINT", "Last sequence number of the row.", "nothing came"),
        Column("stale", "BOOLEAN", "Whether state derived from the source is unknown until a clear."),
    ),
)
DEPLOYMENTS = Table(
    "deployments",
    "The configuration of an endpoint, from when it was first seen in force until its next row.",
    (
        *ENDPOINT,
        SINCE,
        Column("model", "VARCHAR", "The served model's name."),
        Column("replicas", "INTEGER", "Number of replicas."),
        Column("routing", "VARCHAR", "Routing policy, as the router names it."),
        Column("tensor_parallel", "INTEGER", "GPUs that share one replica's model."),
        Column("bytes_per_token", "DOUBLE", "KV bytes a token.", "not configured"),
        Column("worker_memory_bytes", "DOUBLE", "Memory of one replica's container.", "not configured"),
        Column("l2_workers", "INTEGER", "Workers the L2 pool is spread over.", "not configured"),
        Column(
            "l1_keeps_loads", "BOOLEAN", "Whether L1 keeps what it loads from L2.", "to be inferred", since=2
        ),
        Column("objective_kind", "VARCHAR", "What sizing aims at."),
        Column("objective_target", "DOUBLE", "The aim, a ratio from 0 to 1."),
        *(
            Column(f"{tier}_{what}_bytes", "DOUBLE", doc, "not configured")
            for tier in ("l0", "l1", "l2")
            for what, doc in (
                ("capacity", f"Configured size of one holder's {tier.upper()}."),
                ("limit", f"The most one holder's {tier.upper()} may be given."),
            )
        ),
        Column("configuration", "VARCHAR", "All of it, how it is wired up included: JSON.", EARLIER, since=6),
    ),
)
RECOMMENDATIONS = Table(
    "recommendations",
    "Advice on an endpoint: the latest one of each status in each hour.",
    (
        *ENDPOINT,
        Column("at_unix_seconds", "DOUBLE", "When it was computed."),
        Column("status", "VARCHAR", "`recommend`, `no_change` or `insufficient_evidence`."),
        Column("document", "VARCHAR", "The whole recommendation, JSON."),
    ),
)
FEED_POSITIONS = Table(
    "feed_positions",
    "One run of one exporter and its last batch in the store, committed together with the batch's rows.",
    (
        Column("feed", "UINTEGER", "Number of the run; runs are numbered as they are first seen."),
        Column("exporter", "VARCHAR", "Name of the exporter."),
        Column("incarnation", "BIGINT", "Drawn by the exporter when it started."),
        Column("sequence", "BIGINT", "The last batch stored, or known to be lost."),
        Column("at_unix_seconds", "DOUBLE", "When that batch was published.", "only a gap is known of it"),
    ),
)
SCHEMA_VERSION = Table(
    "schema_version",
    "The versions of these tables this file has had; the highest is the one in force.",
    (
        Column("version", "INTEGER", "Version of the tables."),
        Column("at_unix_seconds", "DOUBLE", "When the file came to this version."),
    ),
)

TABLES: tuple[Table, ...] = (
    REQUESTS,
    BLOCK_EVENTS,
    TIER_SAMPLES,
    TIER_ACTIVITY,
    TIER_TRANSFERS,
    ENGINE_TOKENS,
    COUNTER_STATES,
    POOL_TRAFFIC,
    POOL_FILES,
    COVERAGE,
    DEPLOYMENTS,
    RECOMMENDATIONS,
    FEED_POSITIONS,
    HOURLY_REQUESTS,
    HOURLY_BLOCKS,
    RETENTION,
    SCHEMA_VERSION,
)
"""Every table, in the order of the reference page."""

VERSION = max(max(table.since, *(column.since for column in table.columns)) for table in TABLES)
"""Version of the store's tables; a file that says more than this was written by a newer release."""
