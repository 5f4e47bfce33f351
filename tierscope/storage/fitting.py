"""How far back a span may reach for its requests to fit into memory: the newest ones stay."""

from __future__ import annotations

import duckdb

from tierscope.domain.window import TimeSpan

ROW_BYTES = 128
"""What a request takes in a `RequestWindow` beside its chain: fifteen arrays and what they are made from."""
BLOCK_BYTES = 8

_SERVED = """
FROM requests
WHERE hour BETWEEN $first_hour AND $last_hour AND namespace = $namespace AND endpoint = $endpoint
  AND status = 'served' AND admitted_unix_seconds >= $start AND admitted_unix_seconds < $end
"""
_BYTES = f"sum({BLOCK_BYTES} * blocks + {ROW_BYTES})"
_IN_ALL = f"SELECT {_BYTES} {_SERVED}"
_FITTING = f"""
WITH taken AS (
  SELECT admitted_unix_seconds, {_BYTES} OVER (ORDER BY admitted_unix_seconds DESC) AS bytes {_SERVED}
)
SELECT min(admitted_unix_seconds) FROM taken WHERE bytes <= $most_bytes
"""


def fitting(
    cursor: duckdb.DuckDBPyConnection, span: TimeSpan, values: dict[str, object], most_bytes: int
) -> TimeSpan:
    """Return the end of the span whose requests take at most so many bytes; all of it where they fit.

    `values` are those of the span. Requests of one moment stay or go together; where not even the newest
    fits, nothing is left.
    """
    (in_all,) = cursor.execute(_IN_ALL, values).fetchone() or (None,)
    if in_all is None or in_all <= most_bytes:
        return span
    (first,) = cursor.execute(_FITTING, values | {"most_bytes": most_bytes}).fetchone() or (None,)
    return TimeSpan(span.end_unix_seconds if first is None else first, span.end_unix_seconds)
