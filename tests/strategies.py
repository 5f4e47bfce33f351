"""Hypothesis strategies for our domain types: everything they allow, no more."""

from __future__ import annotations

from hypothesis import strategies as st

from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    CounterState,
    EngineTokens,
    EvictionReason,
    SourceCoverage,
    TierActivity,
    TierSample,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.pool import PoolFiles, PoolTraffic, Viewpoint
from tierscope.domain.requests import (
    CacheLookup,
    ExternalReason,
    RequestRecord,
    RequestStatus,
    TierLoad,
    TokenSplit,
    TraceContext,
)
from tierscope.domain.tiers import Tier

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
hashes_u64 = st.integers(0, 2**64 - 1)
counts = st.integers(0, 2**40)
times = st.floats(0, 4e9)
seconds = st.floats(0, 1e6)
bytes_sizes = st.floats(0, 1e18)


def maybe(strategy):
    """A value, or None where a source does not say."""
    return st.none() | strategy


engines = st.builds(EngineId, names, names, names, st.integers(0, 63))
sources = st.builds(SourceId, st.sampled_from(SourceKind), names)
trace_contexts = st.builds(
    TraceContext,
    st.integers(1, 2**128 - 1).map("{:032x}".format),
    st.integers(1, 2**64 - 1).map("{:016x}".format),
    st.booleans(),
)


tier_loads = st.builds(
    TierLoad,
    tier=st.sampled_from(Tier),
    ended_unix_seconds=times,
    started_unix_seconds=maybe(times),
    blocks=maybe(counts),
    size_bytes=maybe(counts),
    adapter=maybe(names),
)
cache_lookups = st.builds(
    CacheLookup,
    server=names,
    ended_unix_seconds=times,
    hit_tokens=counts,
    l1_hit_tokens=counts,
    started_unix_seconds=maybe(times),
    loads=st.lists(tier_loads, max_size=3).map(tuple),
    first_chunk_hash=maybe(hashes_u64),
)


@st.composite
def token_splits(draw, minimum=0):
    """A split that adds up, of at least `minimum` tokens."""
    parts = draw(st.tuples(*[st.integers(0, 100_000)] * 5))
    parts = (parts[0] + minimum, *parts[1:])
    return TokenSplit(sum(parts), *parts)


@st.composite
def request_records(draw):
    """An admission that its own checks accept."""
    block_tokens = draw(st.integers(1, 64))
    chain = tuple(draw(st.lists(hashes_u64, max_size=20)))
    tokens = draw(token_splits(minimum=len(chain) * block_tokens))
    attempt = draw(st.integers(0, 3))
    first = [status for status in RequestStatus if status is not RequestStatus.READMITTED]
    return RequestRecord(
        engine=draw(engines),
        model=draw(names),
        request_id=draw(names),
        attempt=attempt,
        status=RequestStatus.READMITTED if attempt else draw(st.sampled_from(first)),
        tokens=tokens,
        block_tokens=block_tokens,
        block_hashes=chain,
        arrived_unix_seconds=draw(times),
        admitted_unix_seconds=draw(times),
        chunk_tokens=draw(maybe(st.integers(1, 4096))),
        external_reason=draw(st.sampled_from(ExternalReason)) if tokens.external else None,
        queue_seconds=draw(maybe(seconds)),
        load_seconds=draw(maybe(seconds)),
        ttft_seconds=draw(maybe(seconds)),
        session_hash=draw(maybe(hashes_u64)),
        salt_hash=draw(maybe(hashes_u64)),
        trace=draw(maybe(trace_contexts)),
        asks_cache=draw(st.booleans()),
        adapter=draw(maybe(st.text(max_size=8))),
        lookup=draw(maybe(cache_lookups)),
    )


block_events = st.builds(
    BlockEvent,
    tier=st.sampled_from(Tier),
    holder=names,
    action=st.sampled_from(BlockAction),
    block_hashes=st.lists(hashes_u64, max_size=20).map(tuple),
    at_unix_seconds=times,
    parent_hash=maybe(hashes_u64),
    block_tokens=st.integers(0, 4096),
    reason=maybe(st.sampled_from(EvictionReason)),
    sequence=maybe(counts),
    ordinal=counts,
)
tier_samples = st.builds(
    TierSample,
    tier=st.sampled_from(Tier),
    holder=names,
    at_unix_seconds=times,
    capacity_bytes=maybe(bytes_sizes),
    used_bytes=maybe(bytes_sizes),
    pinned_bytes=maybe(bytes_sizes),
    capacity_blocks=maybe(counts),
    used_blocks=maybe(counts),
    block_tokens=maybe(counts),
    pinned_blocks=maybe(counts),
    duplicate_blocks=maybe(counts),
    orphan_blocks=maybe(counts),
)
counter_states = st.builds(
    CounterState, began_unix_seconds=times, values=st.lists(counts, max_size=7).map(tuple)
)
tier_activities = st.builds(
    TierActivity,
    tier=st.sampled_from(Tier),
    holder=names,
    since_unix_seconds=times,
    at_unix_seconds=times,
    lookup_hit_tokens=maybe(counts),
    lookup_miss_tokens=maybe(counts),
    stored_blocks=maybe(counts),
    evicted_blocks=maybe(counts),
    failed_blocks=maybe(counts),
    total=maybe(counter_states),
)
tier_transfers = st.builds(
    TierTransfer,
    tier=st.sampled_from(Tier),
    holder=names,
    action=st.sampled_from(TransferAction),
    at_unix_seconds=times,
    started_unix_seconds=maybe(times),
    adapter=maybe(names),
    moved_blocks=counts,
    failed_blocks=counts,
    size_bytes=maybe(counts),
    reason=maybe(names),
)
engine_tokens = st.builds(
    EngineTokens,
    engine=engines,
    model=names,
    since_unix_seconds=times,
    at_unix_seconds=times,
    tokens=token_splits(),
    total=maybe(counter_states),
)
source_coverages = st.builds(
    SourceCoverage,
    source=sources,
    incarnation=st.integers(0, 2**63 - 1),
    since_unix_seconds=times,
    at_unix_seconds=times,
    received=counts,
    missing=counts,
    undecodable=counts,
    restarts=counts,
    first_sequence=maybe(hashes_u64),
    last_sequence=maybe(hashes_u64),
    stale=st.booleans(),
)
pool_traffic = st.builds(
    PoolTraffic,
    holder=names,
    seen_by=st.sampled_from(Viewpoint),
    process=names,
    since_unix_seconds=times,
    at_unix_seconds=times,
    read_bytes=maybe(counts),
    written_bytes=maybe(counts),
    read_seconds=maybe(seconds),
    write_seconds=maybe(seconds),
    reads=maybe(counts),
    writes=maybe(counts),
    local_opens=maybe(counts),
    remote_opens=maybe(counts),
)
pool_files = st.builds(
    PoolFiles,
    holder=names,
    kind=names,
    model=names,
    at_unix_seconds=times,
    files=counts,
    size_bytes=counts,
)
ledger_entries = st.one_of(
    request_records(),
    block_events,
    tier_samples,
    tier_activities,
    tier_transfers,
    engine_tokens,
    source_coverages,
    pool_traffic,
    pool_files,
)


@st.composite
def prefix_forest_paths(draw, max_requests=14):
    """Paths of a prefix forest: each follows an earlier path for a while, then grows blocks of its own."""
    paths: list[list[int]] = []
    next_block = 0
    for _ in range(draw(st.integers(0, max_requests))):
        prefix: list[int] = []
        if paths and draw(st.booleans()):
            earlier = draw(st.sampled_from(paths))
            prefix = earlier[: draw(st.integers(0, len(earlier)))]
        grown = draw(st.integers(0, 6))
        paths.append(prefix + list(range(next_block, next_block + grown)))
        next_block += grown
    return paths
