"""What spans a request record makes: times, attributes and status as the span table says. No sending here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.requests import CacheLookup, RequestRecord, RequestStatus, TierLoad, TierStore
from tierscope.domain.tiers import Origin, Tier
from tierscope.registry import spans as table
from tierscope.registry.types import Span, SpanAttribute

AttributeValue = str | int | float
ValueOf = Callable[[RequestRecord], AttributeValue | None]

_CHILD = re.compile(r"^\d+_(?=(chat)?cmpl-)")
"""What the engine puts before the id of one of n>1 completions."""

LOADED_OUTERMOST_FIRST = (Origin.EXTERNAL, Origin.L2, Origin.L1)


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span to send: times in unix nanoseconds, and why it is an error if it is one."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, AttributeValue]
    error: str | None = None


def spans_of(record: RequestRecord) -> tuple[PlannedSpan, ...]:
    """Return the span of an admission and, after it, those of its load and of what its cache server did.

    Raises ValueError or OverflowError where the record's times are none.
    """
    start_ns, end_ns = _lookup_times_ns(record)
    lookup = PlannedSpan(
        table.KV_LOOKUP.name, start_ns, end_ns, attributes_of(record, table.KV_LOOKUP), _error(record)
    )
    return lookup, *_load(record), *_server_spans(record.lookup)


def _load(record: RequestRecord) -> Iterator[PlannedSpan]:
    if record.load_seconds is not None and _loaded_tokens(record):
        began_ns = _unix_ns(record.admitted_unix_seconds)
        ended_ns = _unix_ns(record.admitted_unix_seconds + record.load_seconds)
        yield PlannedSpan(table.KV_LOAD.name, began_ns, ended_ns, attributes_of(record, table.KV_LOAD))


def _server_spans(lookup: CacheLookup | None) -> Iterator[PlannedSpan]:
    """The lookup in L1 and each read; one whose beginning nobody saw has no span."""
    if lookup is None:
        return
    source = str(SourceId(SourceKind.LMCACHE_RECORDS, lookup.server))
    hits: dict[SpanAttribute, AttributeValue | None] = {
        table.LOOKUP_HIT_TOKENS: lookup.hit_tokens,
        table.LOOKUP_L1_HIT_TOKENS: lookup.l1_hit_tokens,
        table.SOURCE: source,
    }
    yield from _told(table.KV_L1, lookup.started_unix_seconds, lookup.ended_unix_seconds, hits)
    for load in lookup.loads:
        yield from move_spans(lookup.server, load)


def move_spans(server: str, move: TierLoad | TierStore) -> Iterator[PlannedSpan]:
    """Yield the span of a read or a store of a cache server; nothing where nobody saw it begin.

    Raises ValueError or OverflowError where its times are none.
    """
    values: dict[SpanAttribute, AttributeValue | None] = {
        table.SOURCE: str(SourceId(SourceKind.LMCACHE_RECORDS, server))
    }
    if isinstance(move, TierStore):
        span = table.KV_L1_STORE
        values |= {table.STORED_BLOCKS: move.blocks, table.STORED_BYTES: move.size_bytes}
    else:
        span = table.KV_L2_READ if move.tier is Tier.L2 else table.KV_L1_READ
        values |= {
            table.ADAPTER: move.adapter,
            table.READ_BLOCKS: move.blocks,
            table.READ_BYTES: move.size_bytes,
        }
    yield from _told(span, move.started_unix_seconds, move.ended_unix_seconds, values)


def _told(
    span: Span,
    start_seconds: float | None,
    end_seconds: float,
    values: Mapping[SpanAttribute, AttributeValue | None],
) -> Iterator[PlannedSpan]:
    """The span, if its beginning is known; what the server does not say is absent."""
    if start_seconds is None:
        return
    start_ns = _unix_ns(start_seconds)
    attributes = {key.key: values[key] for key in span.attributes}
    known = {key: _writable(value) for key, value in attributes.items() if value is not None}
    yield PlannedSpan(span.name, start_ns, max(start_ns, _unix_ns(end_seconds)), known)


def attributes_of(record: RequestRecord, span: Span) -> dict[str, AttributeValue]:
    """Return the attributes of one of a record's spans; what the record does not know is absent."""
    values = ((attribute.key, ATTRIBUTES[attribute](record)) for attribute in span.attributes)
    return {key: _writable(value) for key, value in values if value is not None}


def _lookup_times_ns(record: RequestRecord) -> tuple[int, int]:
    """Start and end of the admission; two clocks may disagree, so it never ends before it starts."""
    start_seconds = record.arrived_unix_seconds
    if record.attempt > 0:
        # it arrived before it was preempted; this is about what came after
        start_seconds = record.admitted_unix_seconds - (record.queue_seconds or 0.0)
    end_seconds = record.admitted_unix_seconds + (record.load_seconds or 0.0)
    if record.ttft_seconds is not None:
        end_seconds = record.arrived_unix_seconds + record.ttft_seconds
    start_ns = _unix_ns(start_seconds)
    return start_ns, max(start_ns, _unix_ns(end_seconds))


def _unix_ns(unix_seconds: float) -> int:
    """Nanoseconds, of which a float of today's unix time knows the microseconds."""
    ns = round(unix_seconds * 1e6) * 1000
    if not 0 <= ns < 1 << 63:
        raise ValueError(f"{unix_seconds} is no unix time")
    return ns


def _error(record: RequestRecord) -> str | None:
    if record.status is RequestStatus.ABORTED:
        return "the request ended before its first token"
    return None


def _loaded_from(record: RequestRecord) -> str | None:
    origins = (origin.value for origin in LOADED_OUTERMOST_FIRST if record.tokens.of(origin))
    return next(origins, None)


def _loaded_tokens(record: RequestRecord) -> int:
    return sum(record.tokens.of(origin) for origin in LOADED_OUTERMOST_FIRST)


def _writable(value: AttributeValue) -> AttributeValue:
    """Replace what UTF-8 cannot carry: one such text would fail its whole batch."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


ATTRIBUTES: Mapping[SpanAttribute, ValueOf] = {
    table.REQUEST_ID: lambda record: _CHILD.sub("", record.request_id),
    table.MODEL: lambda record: record.model,
    table.NAMESPACE: lambda record: record.engine.namespace,
    table.ENDPOINT: lambda record: record.engine.endpoint,
    table.REPLICA: lambda record: record.engine.replica,
    table.RANK: lambda record: record.engine.rank,
    table.SOURCE: lambda record: str(SourceId(SourceKind.VLLM_HOOK, str(record.engine))),
    table.STATUS: lambda record: record.status.value,
    table.ATTEMPT: lambda record: record.attempt,
    table.PROMPT_TOKENS: lambda record: record.tokens.prompt,
    table.L0_TOKENS: lambda record: record.tokens.l0,
    table.L1_TOKENS: lambda record: record.tokens.l1,
    table.L2_TOKENS: lambda record: record.tokens.l2,
    table.EXTERNAL_TOKENS: lambda record: record.tokens.external,
    table.EXTERNAL_REASON: lambda record: record.external_reason and record.external_reason.value,
    table.COMPUTED_TOKENS: lambda record: record.tokens.computed,
    table.QUEUE_SECONDS: lambda record: record.queue_seconds,
    table.LOAD_WAIT_SECONDS: lambda record: record.load_seconds,
    table.TTFT_SECONDS: lambda record: record.ttft_seconds,
    table.LOAD_TIER: _loaded_from,
    table.LOAD_TOKENS: _loaded_tokens,
}
"""What each attribute of an admission and its load is, for a record; None leaves it out."""
