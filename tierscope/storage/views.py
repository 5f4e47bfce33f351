"""The views people query: accesses, reuse, shared prefixes, evictions regretted, tiers by the minute.

Those that expand chains exist twice under one name: as a table macro over a span of time,
`block_reuse(start, end)`, and as a view over everything. The macro reads only the hours of its span.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.window import MOST_UNIX_SECONDS
from tierscope.storage.columns import Column

_ALL_TIME = f"{-MOST_UNIX_SECONDS}, nextafter({MOST_UNIX_SECONDS}::DOUBLE, 'infinity'::DOUBLE)"


@dataclass(frozen=True, slots=True)
class View:
    """One view: what a row is, its columns, its query. With `spanned`, also a macro of the same name.

    The query of a spanned view uses the macro's parameters `span_start` and `span_end` (unix seconds).
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    query: str
    spanned: bool = False

    def ddl(self) -> tuple[str, ...]:
        """The statements that create the view, or the macro and the view over it."""
        if not self.spanned:
            return (f"CREATE OR REPLACE VIEW {self.name} AS {self.query}",)
        return (
            f"CREATE OR REPLACE MACRO {self.name}(span_start, span_end) AS TABLE {self.query}",
            f"CREATE OR REPLACE VIEW {self.name} AS FROM {self.name}({_ALL_TIME})",
        )


_WHO = (
    Column("namespace", "VARCHAR", "Namespace of the endpoint."),
    Column("endpoint", "VARCHAR", "Name of the endpoint."),
    Column("model", "VARCHAR", "The served model's name."),
)
_TIER = Column("tier", "VARCHAR", "`l0`, `l1`, `l2`, `external` or `computed`.")
_FIRST = Column("first_unix_seconds", "DOUBLE", "Its first use in the span.")
_LAST = Column("last_unix_seconds", "DOUBLE", "Its last use in the span.")

BLOCK_ACCESSES = View(
    name="block_accesses",
    row="One block of one admission's chain.",
    columns=(
        Column("at_unix_seconds", "DOUBLE", "When the block was looked up: the admission."),
        *_WHO,
        Column("replica", "VARCHAR", "The replica (pod) of the engine."),
        Column("rank", "INTEGER", "Data-parallel rank of the engine in its replica."),
        Column("request", "UBIGINT", "`requests.id` of the admission."),
        Column("status", "VARCHAR", "What became of the admission; `served` ones count in token sums."),
        Column("position", "INTEGER", "Place of the block in the chain, from 0."),
        Column("block_hash", "UBIGINT", "The block; its hash names its whole prefix."),
        _TIER,
    ),
    # Each step of the recursion goes to the row that introduced the last block still wanted, so a chain
    # takes as many steps as rows introduced parts of it. Parents lie in the same hour as their children.
    # A block is served by the tier that its last token fell to; loads go outward, computing comes last.
    query="""
WITH RECURSIVE hours AS (
  SELECT * FROM requests
  WHERE hour BETWEEN CAST(floor(span_start / 3600) AS INTEGER) AND CAST(floor(span_end / 3600) AS INTEGER)
), segments AS (
  SELECT id, id AS part_id, blocks AS upto FROM hours
  WHERE admitted_unix_seconds >= span_start AND admitted_unix_seconds < span_end AND blocks > 0
  UNION ALL
  SELECT segments.id, hours.parent_id, hours.common_blocks
  FROM segments JOIN hours ON hours.id = segments.part_id WHERE hours.common_blocks > 0
), accesses AS (
  SELECT segments.id, part.common_blocks + step.i - 1 AS position, part.new_hashes[step.i] AS block_hash
  FROM segments JOIN hours AS part ON part.id = segments.part_id,
    LATERAL (SELECT unnest(generate_series(1, segments.upto - part.common_blocks)) AS i) AS step
)
SELECT
  whole.admitted_unix_seconds AS at_unix_seconds, whole.namespace, whole.endpoint, whole.model,
  whole.replica, whole.rank, whole.id AS request, whole.status,
  CAST(accesses.position AS INTEGER) AS position, accesses.block_hash,
  CASE
    WHEN (position + 1) * block_tokens <= l0_tokens THEN 'l0'
    WHEN (position + 1) * block_tokens <= l0_tokens + l1_tokens THEN 'l1'
    WHEN (position + 1) * block_tokens <= l0_tokens + l1_tokens + l2_tokens THEN 'l2'
    WHEN (position + 1) * block_tokens <= prompt_tokens - computed_tokens THEN 'external'
    ELSE 'computed'
  END AS tier
FROM accesses JOIN hours AS whole ON whole.id = accesses.id
""",
    spanned=True,
)
BLOCK_REUSE = View(
    name="block_reuse",
    row="One block of one served request, with the request of the same endpoint and model that used it last.",
    columns=(
        Column("at_unix_seconds", "DOUBLE", "When the block was looked up."),
        *_WHO,
        Column("block_hash", "UBIGINT", "The block."),
        Column("request", "UBIGINT", "`requests.id` of this use."),
        Column(
            "previous_request", "UBIGINT", "`requests.id` of the use before.", "its first use in the span"
        ),
        _TIER,
        Column("interval_seconds", "DOUBLE", "Time since the use before.", "its first use in the span"),
    ),
    query="""
SELECT
  at_unix_seconds, namespace, endpoint, model, block_hash, request,
  lag(request) OVER uses AS previous_request, tier,
  at_unix_seconds - lag(at_unix_seconds) OVER uses AS interval_seconds
FROM block_accesses(span_start, span_end) WHERE status = 'served'
WINDOW uses AS (PARTITION BY namespace, endpoint, model, block_hash ORDER BY at_unix_seconds, request)
""",
    spanned=True,
)
TIER_HITS_PER_MINUTE = View(
    name="tier_hits_per_minute",
    row="Prompt tokens of one minute's served requests by where they came from; five rows a minute.",
    columns=(
        Column("minute_unix_seconds", "DOUBLE", "Start of the minute of the admissions."),
        *_WHO,
        _TIER,
        Column("tokens", "BIGINT", "Prompt tokens from this tier."),
        Column("prompt_tokens", "BIGINT", "All prompt tokens of the minute."),
        Column(
            "ratio",
            "DOUBLE",
            "Share of the prompt tokens, without those of requests that ask no cache: they can hit nothing.",
            "no request asked",
        ),
        Column("requests", "BIGINT", "Served requests of the minute."),
        Column("unasked_tokens", "BIGINT", "Prompt tokens of requests that ask no cache, all computed."),
    ),
    query="""
WITH minutes AS (
  SELECT
    floor(admitted_unix_seconds / 60) * 60 AS minute_unix_seconds, namespace, endpoint, model,
    sum(l0_tokens) AS l0, sum(l1_tokens) AS l1, sum(l2_tokens) AS l2,
    sum(external_tokens) AS external, sum(computed_tokens) AS computed,
    sum(prompt_tokens) AS prompt_tokens, count(*) AS requests,
    coalesce(sum(prompt_tokens) FILTER (NOT asks_cache), 0) AS unasked_tokens
  FROM requests WHERE status = 'served' GROUP BY ALL
)
SELECT
  minute_unix_seconds, namespace, endpoint, model, tier, CAST(tokens AS BIGINT) AS tokens,
  CAST(prompt_tokens AS BIGINT) AS prompt_tokens,
  (tokens - CASE tier WHEN 'computed' THEN unasked_tokens ELSE 0 END)
    / nullif(prompt_tokens - unasked_tokens, 0) AS ratio,
  requests, CAST(unasked_tokens AS BIGINT) AS unasked_tokens
FROM minutes UNPIVOT (tokens FOR tier IN (l0, l1, l2, external, computed))
""",
)

SHARED_PREFIXES = View(
    name="shared_prefixes",
    row="One prefix that at least two served requests of an endpoint and model begin with, as long as all of "
    "them share it: where fewer go on together, that is a row of its own.",
    columns=(
        *_WHO,
        Column("block_hash", "UBIGINT", "The prefix: the hash of its last block names all of it."),
        Column("blocks", "INTEGER", "Blocks of the prefix."),
        Column("prefix_tokens", "BIGINT", "Tokens of the prefix: its full blocks."),
        Column("requests", "BIGINT", "Served requests that begin with it."),
        Column("sessions", "BIGINT", "Sessions of these requests.", "no session is known"),
        Column("replicas", "BIGINT", "Replicas these requests were sent to."),
        Column("computed_requests", "BIGINT", "Requests for which its last block was computed."),
        Column(
            "repeated_tokens", "BIGINT", "Its tokens times all uses but the first: what sharing can save."
        ),
        _FIRST,
        _LAST,
    ),
    query="""
WITH uses AS (
  SELECT
    namespace, endpoint, model, block_hash, position, request, tier, replica, at_unix_seconds,
    lag(block_hash) OVER (PARTITION BY request ORDER BY position) AS parent_hash
  FROM block_accesses(span_start, span_end) WHERE status = 'served'
), prefixes AS (
  SELECT
    uses.namespace, uses.endpoint, uses.model, uses.block_hash, any_value(parent_hash) AS parent_hash,
    max(position) + 1 AS blocks, (max(position) + 1) * max(block_tokens) AS prefix_tokens,
    count(*) AS requests, nullif(count(DISTINCT session_hash), 0) AS sessions,
    count(DISTINCT uses.replica) AS replicas, count(*) FILTER (tier = 'computed') AS computed_requests,
    min(at_unix_seconds) AS first_unix_seconds, max(at_unix_seconds) AS last_unix_seconds
  FROM uses JOIN requests ON requests.id = uses.request
  WHERE hour BETWEEN CAST(floor(span_start / 3600) AS INTEGER) AND CAST(floor(span_end / 3600) AS INTEGER)
  GROUP BY ALL HAVING count(*) > 1
)
SELECT
  namespace, endpoint, model, block_hash, CAST(blocks AS INTEGER) AS blocks,
  CAST(prefix_tokens AS BIGINT) AS prefix_tokens, requests, sessions, replicas, computed_requests,
  CAST(prefix_tokens * (requests - 1) AS BIGINT) AS repeated_tokens, first_unix_seconds, last_unix_seconds
FROM prefixes ANTI JOIN prefixes AS longer ON longer.parent_hash = prefixes.block_hash
  AND longer.requests = prefixes.requests AND longer.namespace = prefixes.namespace
  AND longer.endpoint = prefixes.endpoint AND longer.model = prefixes.model
""",
    spanned=True,
)
REGRET = View(
    name="regret",
    row="One block that was evicted and then wanted: the first served request that asked for it while it was "
    "gone, and that neither this tier nor one above it served. From L0 it is wanted by its own engine, from "
    "a shared tier by whichever engine asks.",
    columns=(
        Column("evicted_unix_seconds", "DOUBLE", "When the block was evicted."),
        Column("evicted_from", "VARCHAR", "`l0`, `l1` or `l2`."),
        Column("holder", "VARCHAR", "Who held it; see `block_events`."),
        Column("reason", "VARCHAR", "Why it was evicted; see `block_events`."),
        Column("block_hash", "UBIGINT", "The block."),
        Column("wanted_unix_seconds", "DOUBLE", "When it was asked for."),
        Column(
            "interval_seconds", "DOUBLE", "From eviction to request: how much longer it should have stayed."
        ),
        *_WHO,
        Column("request", "UBIGINT", "`requests.id` of the request."),
        Column(
            "tier", "VARCHAR", "What served it then: `l1`, `l2`, `external` (after L0 only) or `computed`."
        ),
    ),
    # The mark before a use says whether the holder had the block; a use at the time of an eviction
    # looked the block up before it left.
    query="""
WITH marks AS (
  SELECT tier, holder, action, reason, at_unix_seconds, unnest(block_hashes) AS block_hash
  FROM block_events WHERE at_unix_seconds >= span_start AND at_unix_seconds < span_end
), uses AS (
  SELECT
    gone.tier AS held_in, gone.holder, accesses.*
  FROM block_accesses(span_start, span_end) AS accesses
  JOIN (SELECT DISTINCT tier, holder, block_hash FROM marks WHERE action = 'evicted') AS gone
    ON gone.block_hash = accesses.block_hash
    AND (gone.tier <> 'l0' OR gone.holder = concat_ws('/', namespace, endpoint, replica, rank))
  WHERE status = 'served'
), wants AS (
  SELECT
    marks.at_unix_seconds AS evicted_unix_seconds, held_in, uses.holder, action, reason, uses.block_hash,
    uses.at_unix_seconds AS wanted_unix_seconds, namespace, endpoint, model, request, uses.tier
  FROM uses ASOF JOIN marks ON marks.tier = uses.held_in AND marks.holder = uses.holder
    AND marks.block_hash = uses.block_hash AND uses.at_unix_seconds > marks.at_unix_seconds
), first_wants AS (
  FROM wants WHERE action = 'evicted'
  QUALIFY row_number() OVER (
    PARTITION BY held_in, holder, block_hash, evicted_unix_seconds ORDER BY wanted_unix_seconds, request
  ) = 1
)
SELECT
  evicted_unix_seconds, held_in AS evicted_from, holder, reason, block_hash, wanted_unix_seconds,
  wanted_unix_seconds - evicted_unix_seconds AS interval_seconds, namespace, endpoint, model, request, tier
FROM first_wants
WHERE tier = 'computed' OR (held_in = 'l0' AND tier <> 'l0') OR (held_in = 'l1' AND tier = 'l2')
""",
    spanned=True,
)

TIER_HITS_PER_HOUR = View(
    name="tier_hits_per_hour",
    row="Prompt tokens of one hour's served requests by where they came from; five rows an hour. Hours whose "
    "rows are gone are here too, from their sums.",
    columns=(
        Column("hour_unix_seconds", "DOUBLE", "Start of the hour of the admissions."),
        *_WHO,
        _TIER,
        Column("tokens", "BIGINT", "Prompt tokens from this tier."),
        Column("prompt_tokens", "BIGINT", "All prompt tokens of the hour."),
        Column("ratio", "DOUBLE", "`tokens` over `prompt_tokens`."),
        Column("requests", "BIGINT", "Served requests of the hour."),
    ),
    query="""
WITH parts AS (
  SELECT
    hour, namespace, endpoint, model, l0_tokens, l1_tokens, l2_tokens, external_tokens, computed_tokens,
    prompt_tokens, 1 AS requests
  FROM requests WHERE status = 'served'
  UNION ALL
  SELECT
    hour, namespace, endpoint, model, l0_tokens, l1_tokens, l2_tokens, external_tokens, computed_tokens,
    prompt_tokens, requests
  FROM hourly_requests WHERE status = 'served'
), hours AS (
  SELECT
    hour, namespace, endpoint, model, sum(l0_tokens) AS l0, sum(l1_tokens) AS l1, sum(l2_tokens) AS l2,
    sum(external_tokens) AS external, sum(computed_tokens) AS computed,
    sum(prompt_tokens) AS prompt_tokens, sum(requests) AS requests
  FROM parts GROUP BY ALL
)
SELECT
  hour * 3600.0::DOUBLE AS hour_unix_seconds, namespace, endpoint, model, tier,
  CAST(tokens AS BIGINT) AS tokens, CAST(prompt_tokens AS BIGINT) AS prompt_tokens,
  tokens / prompt_tokens AS ratio, CAST(requests AS BIGINT) AS requests
FROM hours UNPIVOT (tokens FOR tier IN (l0, l1, l2, external, computed))
""",
)

VIEWS: tuple[View, ...] = (
    BLOCK_ACCESSES,
    BLOCK_REUSE,
    SHARED_PREFIXES,
    REGRET,
    TIER_HITS_PER_MINUTE,
    TIER_HITS_PER_HOUR,
)
"""Every view, in an order in which each can be created."""
