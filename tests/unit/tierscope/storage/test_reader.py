"""A reader gives back what came in: sums, windows, the latest readings, and how complete it all is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.ledgers import ENGINES, START, Ledger, admission, batch, chain_of, split_of
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.events import EngineTokens, SourceCoverage, TierSample
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.requests import NO_TOKENS, RequestRecord
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)


@pytest.fixture
def store(places):
    with Store.open(*places(), clock=lambda: START) as store:
        yield store


def window(store, span=ALL_TIME, endpoint="chat"):
    return store.reader().window("prod", endpoint, span)


@pytest.mark.parametrize("appends", [1, 7, 120])
def test_a_window_is_the_served_requests_of_its_span(store, appends):
    """Every array is what came in, oldest first, whatever flushes and hours cut the deltas."""
    batches = Ledger(seed=3).batches(120)
    for cut in np.array_split(np.arange(120), appends):
        store.append([batches[k] for k in cut])
    span = TimeSpan(START + 1000, START + 5000)
    served = sorted(
        (
            entry
            for one in batches
            for entry in one.entries
            if isinstance(entry, RequestRecord) and entry.counts
            if span.start_unix_seconds <= entry.admitted_unix_seconds < span.end_unix_seconds
        ),
        key=lambda record: record.admitted_unix_seconds,
    )

    found = window(store, span)

    assert found.requests == len(served) > 50
    chains = [found.block_hashes[start:end].tolist() for start, end in pairwise(found.offsets)]
    for n, record in enumerate(served):
        assert found.at_unix_seconds[n] == record.admitted_unix_seconds
        assert chains[n] == list(record.block_hashes)
        assert found.engines[found.engine[n]] == record.engine
        assert found.session[n] == record.session_hash
        assert [found.prompt[n], found.l0[n], found.external[n]] == [
            record.tokens.prompt,
            record.tokens.l0,
            record.tokens.external,
        ]
    assert found.totals() == sum((record.tokens for record in served), NO_TOKENS)
    assert found.totals() == store.reader().totals("prod", "chat", span).tokens
    assert (found.block_tokens, found.chunk_tokens) == (16, 256)


def test_a_window_without_requests_is_empty(store):
    """Nothing is not an error, and no size is made up."""
    found = window(store)

    assert (found.requests, found.accesses, found.block_tokens, found.chunk_tokens) == (0, 0, 0, None)
    assert found.totals() == store.reader().totals("prod", "chat", ALL_TIME).tokens == NO_TOKENS


def test_what_the_engine_did_not_say_is_nan(store):
    """Unknown durations are NaN, an unknown session is 0."""
    store.append(batch(0, replace(admission("a"), ttft_seconds=None, load_seconds=None)))

    found = window(store)

    assert np.isnan(found.ttft_seconds[0])
    assert np.isnan(found.load_seconds[0])
    assert found.queue_seconds[0] == 0.25
    assert found.session[0] == 0


def test_endpoints_are_kept_apart(store):
    """One endpoint's window holds nothing of another's."""
    other = EngineId("prod", "code", "code-0")
    store.append(batch(0, admission("abc", name="a"), admission("ab", name="b", engine=other)))

    assert window(store).accesses == 3
    assert window(store, endpoint="code").engines == (other,)
    assert store.reader().endpoints() == (("prod", "chat"), ("prod", "code"))


def test_a_changed_block_size_starts_a_new_window(store):
    """Blocks of two sizes cannot be one history; the size in force counts."""
    old = [admission("abc", name=f"old-{n}", at=START + n) for n in range(3)]
    new = admission("ab", name="new", at=START + 10, block_tokens=32)
    store.append(batch(0, *old, new))

    found = window(store)

    assert (found.requests, found.block_tokens, found.accesses) == (1, 32, 2)


@pytest.mark.parametrize("said", [[None, 256, 256], [256, None, 256], [256, 256, None]])
def test_a_chunk_size_not_said_fits_any(store, said):
    """Requests that came before their cache server was read are part of the window."""
    requests = [
        admission("abc", name=f"{n}", at=START + n, chunk_tokens=chunk) for n, chunk in enumerate(said)
    ]
    store.append(batch(0, *requests))

    found = window(store)

    assert (found.requests, found.chunk_tokens, found.accesses) == (3, 256, 9)


def test_a_changed_chunk_size_starts_a_new_window(store):
    """Of two chunk sizes the later one counts; requests of unknown size stay."""
    sizes = [None, 128, 256]
    requests = [
        admission("abc", name=f"{n}", at=START + n, chunk_tokens=chunk) for n, chunk in enumerate(sizes)
    ]
    store.append(batch(0, *requests))

    found = window(store)

    assert (found.requests, found.chunk_tokens) == (2, 256)
    assert found.at_unix_seconds.tolist() == [START, START + 2]


def test_a_prompt_shorter_than_a_block_says_nothing_of_the_size(store):
    """The last request has no block, and so no say: the others stay, and so does it."""
    requests = [admission("abc", name=f"{n}", at=START + n, block_tokens=32) for n in range(3)]
    short = admission("", name="short", at=START + 9, block_tokens=16)
    store.append(batch(0, *requests, short))

    found = window(store)

    assert (found.requests, found.block_tokens, found.accesses) == (4, 32, 9)


def test_a_row_whose_parent_is_gone_is_named(store):
    """A chain that cannot be put together is an error, never a wrong chain."""
    store.append(batch(0, admission("ab", name="1"), admission("abc", name="2", at=START + 1)))
    with store._database.transaction() as cursor:
        cursor.execute("DELETE FROM requests WHERE request_id = '1'")

    with pytest.raises(StoreUnusable, match="parent of request row"):
        window(store)


def test_chains_of_the_hour_before_are_not_needed(store):
    """A span that starts in the middle of an hour finds every parent in that hour."""
    hour = START // 3600 * 3600 + 3600
    store.append(
        [
            batch(0, admission("ab", name="before", at=hour - 1)),
            batch(
                1, admission("abc", name="first", at=hour + 1), admission("abcd", name="then", at=hour + 2)
            ),
        ]
    )

    found = window(store, TimeSpan(hour + 2, hour + 3))

    assert tuple(found.block_hashes.tolist()) == chain_of("abcd")


def test_history_spans_all_admissions(store):
    """From the first to the last admission, the last one included."""
    assert store.reader().history("prod", "chat") is None
    store.append(batch(0, admission("a", name="1"), admission("a", name="2", at=START + 9)))

    span = store.reader().history("prod", "chat")

    assert span.start_unix_seconds == START
    assert window(store, span).requests == 2


def test_engines_own_counters_are_summed_by_the_end_of_their_interval(store):
    """An interval belongs to the span that it ends in."""
    readings = [
        EngineTokens(ENGINES[n % 2], "m", START + 10 * n, START + 10 * n + 10, split_of(100, n))
        for n in range(4)
    ]
    store.append(batch(0, *readings))

    assert store.reader().engine_totals("prod", "chat", TimeSpan(START + 15, START + 40)).tokens == split_of(
        200, 3
    )


def test_samples_are_the_readings_of_the_endpoints_tiers(store):
    """Oldest first by holder, what a reading lacks filled in; another endpoint's L0 is not ours."""
    own, other = str(ENGINES[0]), "prod/code/code-0/0"
    store.append(
        batch(
            0,
            TierSample(Tier.L1, "lmcache", START + 5, used_bytes=2.0),
            TierSample(Tier.L1, "lmcache", START, capacity_bytes=10.0, used_bytes=1.0),
            TierSample(Tier.L1, "lmcache", START + 50, used_bytes=3.0),
            TierSample(Tier.L0, own, START + 1, used_blocks=7),
            TierSample(Tier.L0, other, START + 1, used_blocks=8),
        )
    )

    found = store.reader().samples("prod", "chat", TimeSpan(START, START + 50)).samples

    assert found == (
        TierSample(Tier.L0, own, START + 1, used_blocks=7),
        TierSample(Tier.L1, "lmcache", START, capacity_bytes=10.0, used_bytes=1.0),
        TierSample(Tier.L1, "lmcache", START + 5, capacity_bytes=10.0, used_bytes=2.0),
    )


def test_a_single_reading_is_a_reading(store):
    """Nothing is divided by the time between one reading and itself."""
    store.append(batch(0, TierSample(Tier.L2, "pool", START, used_bytes=2.0)))

    assert store.reader().samples("prod", "chat", ALL_TIME).samples == (
        TierSample(Tier.L2, "pool", START, used_bytes=2.0),
    )


def test_many_readings_are_thinned_evenly(store):
    """A long history of readings stays small, from its first to its last."""
    readings = [TierSample(Tier.L2, "pool", START + n, used_bytes=float(n)) for n in range(5000)]
    store.append(batch(0, *readings))

    found = store.reader().samples("prod", "chat", ALL_TIME).samples

    times = np.array([sample.at_unix_seconds - START for sample in found])
    assert len(found) == 720
    assert times[-1] == 4999
    assert np.diff(times).max() <= 8
    assert all(sample.used_bytes == time for sample, time in zip(found, times, strict=True))


def test_coverage_is_one_interval_a_source(store):
    """Counts are summed; the sequence range and `stale` are those of the latest incarnation."""
    hook = SourceId(SourceKind.VLLM_HOOK, str(ENGINES[0]))

    def interval(at, incarnation, first, last, **rest):
        return SourceCoverage(
            hook, incarnation, START + at - 5, START + at, first_sequence=first, last_sequence=last, **rest
        )

    store.append(
        batch(
            0,
            interval(5, 1, 0, 9, received=9, missing=1, stale=True),
            interval(10, 1, 10, 14, received=5, missing=0, undecodable=1),
            interval(15, 2, 0, 3, received=4, missing=0, restarts=1),
            interval(90, 2, 4, 9, received=6, missing=0),
        )
    )

    (found,) = (c for c in store.reader().coverage(TimeSpan(START, START + 60)) if c.source == hook)

    assert found == SourceCoverage(
        hook, 2, START, START + 15, 18, 1, undecodable=1, restarts=1, first_sequence=0, last_sequence=3
    )
    assert found.completeness_ratio == 0.9


def test_evidence_leaves_other_endpoints_engines_out(store):
    """Advice rests on the endpoint's own engines, the shared tiers and the feeds."""
    kinds = {SourceKind.VLLM_HOOK: "prod/chat/chat-0/0", SourceKind.VLLM_EVENTS: "prod/code/code-0/0"}
    kinds[SourceKind.LMCACHE_METRICS] = "lmcache"
    covered = [SourceCoverage(SourceId(kind, owner), 1, START, START, 1, 0) for kind, owner in kinds.items()]
    store.append(batch(0, admission("a"), TierSample(Tier.L1, "lmcache", START, used_bytes=1.0), *covered))

    evidence = store.reader().evidence("prod", "chat", ALL_TIME)

    assert [str(c.source) for c in evidence.coverage] == [
        "feed:node-1",
        "lmcache_metrics:lmcache",
        "vllm_hook:prod/chat/chat-0/0",
    ]
    assert (evidence.window.requests, len(evidence.samples)) == (1, 1)


@pytest.mark.parametrize("places", ["file"], indirect=True)
def test_a_file_no_collector_holds_can_be_read_by_many(store):
    """After the collector has gone, readers need no collector and do not exclude each other."""
    store.append(batch(0, admission("abc")))
    store.close()

    readers = [DuckDbReader.open(store.path) for _ in range(1)]

    assert [reader.window("prod", "chat", ALL_TIME).accesses for reader in readers] == [3]
    for reader in readers:
        reader.close()
