"""Every request's trace: what each tier did for it on real vLLM and a real LMCache server, and when."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.engines import hook
from tests.engines.all_tiers import CHUNK_BYTES
from tests.engines.lmcache_server import CHUNK_TOKENS
from tests.engines.workload import caller_of
from tests.otlp_receiver import attributes_on
from tierscope.domain.tiers import Origin

ROUNDED_NS = 1_000
"""What the rounding of two times to microseconds may put between them.

More is not allowed: engine, cache server and exporter read one machine's clock, and each step is asked for
and answered by message, so nothing within another can seem to be outside it."""


@pytest.fixture(scope="module")
def run(all_tiers):
    """The run that every file here looks at."""
    return all_tiers


@pytest.fixture(scope="module")
def lookups(run):
    """The span of each admission."""
    return [span for span in run.spans if span.name == "kv.lookup"]


@pytest.fixture(scope="module")
def inside(run):
    """The spans within a span, by its id and their name."""
    found = defaultdict(list)
    for span in run.spans:
        found[span.parent_span_id, span.name].append(span)
    return found


def tokens(span):
    """What an admission's span says of its tokens, by origin."""
    said = attributes_on(span)
    return {origin: said[f"tierscope.tokens.{origin}"] for origin in Origin}


def assert_within(inner, outer):
    """The same trace, and no time outside."""
    assert inner.trace_id == outer.trace_id
    assert outer.start_time_unix_nano - ROUNDED_NS <= inner.start_time_unix_nano
    assert inner.start_time_unix_nano < inner.end_time_unix_nano
    assert inner.end_time_unix_nano <= outer.end_time_unix_nano + ROUNDED_NS


def microseconds(seconds):
    """As a span has them."""
    return round(seconds * 1e6)


def times(span):
    """Start and end in microseconds."""
    return span.start_time_unix_nano // 1000, span.end_time_unix_nano // 1000


def test_every_admission_is_in_its_callers_trace(run, lookups):
    """Under the span that the client named, with its row's tokens: first admissions and later ones."""
    told = Counter(
        (
            caller_of(hook.client_id({"rid": row.request_id})),
            row.attempt,
            tuple(row.tokens.of(origin) for origin in Origin),
        )
        for row in run.rows
    )

    assert told == Counter(
        (
            (span.trace_id, span.parent_span_id),
            attributes_on(span)["tierscope.attempt"],
            tuple(tokens(span).values()),
        )
        for span in lookups
    )


def test_the_engines_own_spans_are_in_the_same_traces(run, lookups):
    """Beside ours, joined by the request id, where the engine sent one: with the same prompt. UD-56."""
    ours = defaultdict(list)
    for span in lookups:
        ours[span.trace_id, attributes_on(span)["gen_ai.request.id"]].append(span)
    engines = [span for span in run.spans if span.name == "llm_request"]

    assert len(engines) >= 200
    for span in engines:
        said = attributes_on(span)
        beside = ours[span.trace_id, said["gen_ai.request.id"]]
        first = [tokens(each) for each in beside if not attributes_on(each)["tierscope.attempt"]]
        assert {each.parent_span_id for each in beside} == {span.parent_span_id}
        assert {sum(each.values()) for each in first} == {said["gen_ai.usage.prompt_tokens"]}


def test_each_hit_of_l1_or_l2_shows_the_lookup_that_found_it(lookups, inside):
    """Within the request; what it found is what the engine had and loaded, or one token more."""
    hits = [span for span in lookups if tokens(span)[Origin.L1] or tokens(span)[Origin.L2]]

    assert {attributes_on(span)["tierscope.attempt"] for span in hits} >= {0, 1}
    for span in hits:
        (l1,) = inside[span.span_id, "kv.l1"]
        assert_within(l1, span)
        said, used = attributes_on(l1), tokens(span)
        served = used[Origin.L0] + used[Origin.L1] + used[Origin.L2]
        assert said["tierscope.lookup.hit_tokens"] - served in (0, 1)
        if not used[Origin.L2]:
            assert said["tierscope.lookup.l1_hit_tokens"] == said["tierscope.lookup.hit_tokens"]
        assert said["tierscope.source"] == "lmcache_records:node"


def test_each_hit_of_l2_shows_its_reads(lookups, inside):
    """Begun within the lookup that waited for them: adapter, chunks and bytes, all that it found beyond L1.

    A read ends when a thread of the server's sees it, which on a busy machine is after the lookup's answer.
    """
    hits = [span for span in lookups if tokens(span)[Origin.L2]]

    assert hits
    for span in hits:
        (l1,) = inside[span.span_id, "kv.l1"]
        reads = inside[span.span_id, "kv.l2.read"]
        told = list(map(attributes_on, reads))
        for read, said in zip(reads, told, strict=True):
            assert read.trace_id == l1.trace_id
            assert l1.start_time_unix_nano - ROUNDED_NS <= read.start_time_unix_nano
            assert read.start_time_unix_nano < min(read.end_time_unix_nano, l1.end_time_unix_nano)
            assert said["tierscope.read.adapter"] == "fs"
            assert said["tierscope.read.bytes"] == said["tierscope.read.blocks"] * CHUNK_BYTES
        found = attributes_on(l1)
        beyond_l1 = found["tierscope.lookup.hit_tokens"] - found["tierscope.lookup.l1_hit_tokens"]
        assert sum(said["tierscope.read.blocks"] for said in told) * CHUNK_TOKENS == beyond_l1
        assert beyond_l1 >= tokens(span)[Origin.L2]


def test_lookups_and_reads_take_as_long_as_the_server_says(run):
    """To the microsecond, start and end; and no read is in two traces."""
    for kind, name in (("lookup", "kv.l1"), ("load", "kv.l2.read")):
        told = Counter(
            (microseconds(each["start"]), microseconds(each["end"]))
            for each in run.of(kind)
            if each["start"] is not None
        )
        shown = Counter(times(span) for span in run.spans if span.name == name)

        assert shown
        assert shown <= told


def test_the_servers_own_load_speeds_are_those_of_its_records(run):
    """Its histogram of bytes a second, task by task: what durations of spans rest on is what it measures."""
    speeds = [load["bytes"] / (load["end"] - load["start"]) / 1e9 for load in run.of("load")]
    name = "lmcache_mp_l2_load_throughput_GB_per_second"

    assert run.cache_page.total(f"{name}_count") == len(speeds)
    assert run.cache_page.amount(f"{name}_sum") == pytest.approx(sum(speeds))


def test_an_engine_that_copies_by_itself_shows_no_read_of_l1(run):
    """The server tells no start and no end of such a copy; the engine's wait for it is `kv.load`."""
    ours = {span.name for span in run.spans if span.name.startswith("kv.")}

    assert ours == {"kv.lookup", "kv.load", "kv.l1", "kv.l2.read"}


def test_the_wait_for_a_load_follows_its_lookup(lookups, inside):
    """Within the request, after the answer that named what there is to load."""
    loaded = [span for span in lookups if inside[span.span_id, "kv.load"]]

    assert loaded
    for span in loaded:
        (wait,) = inside[span.span_id, "kv.load"]
        (l1,) = inside[span.span_id, "kv.l1"]
        assert_within(wait, span)
        assert l1.end_time_unix_nano <= wait.start_time_unix_nano + ROUNDED_NS
