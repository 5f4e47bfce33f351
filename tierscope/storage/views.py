"""The views people query: chains expanded to accesses, reuse of blocks, tiers by the minute.

`block_accesses` and `block_reuse` exist twice under one name: as a table macro over a span of time,
`block_reuse(start, end)`, and as a view over everything. The macro reads only the hours of its span.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.storage.schema import MOST_UNIX_SECONDS, Column

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
        Column("ratio", "DOUBLE", "`tokens` over `prompt_tokens`."),
        Column("requests", "BIGINT", "Served requests of the minute."),
    ),
    query="""
WITH minutes AS (
  SELECT
    floor(admitted_unix_seconds / 60) * 60 AS minute_unix_seconds, namespace, endpoint, model,
    sum(l0_tokens) AS l0, sum(l1_tokens) AS l1, sum(l2_tokens) AS l2,
    sum(external_tokens) AS external, sum(computed_tokens) AS computed,
    sum(prompt_tokens) AS prompt_tokens, count(*) AS requests
  FROM requests WHERE status = 'served' GROUP BY ALL
)
SELECT
  minute_unix_seconds, namespace, endpoint, model, tier, CAST(tokens AS BIGINT) AS tokens,
  CAST(prompt_tokens AS BIGINT) AS prompt_tokens, tokens / prompt_tokens AS ratio, requests
FROM minutes UNPIVOT (tokens FOR tier IN (l0, l1, l2, external, computed))
""",
)

VIEWS: tuple[View, ...] = (BLOCK_ACCESSES, BLOCK_REUSE, TIER_HITS_PER_MINUTE)
"""Every view, in an order in which each can be created."""
