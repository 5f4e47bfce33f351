"""A record's spans: times, attributes and status, before anything is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from tests import strategies
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import (
    CacheLookup,
    ExternalReason,
    RequestRecord,
    RequestStatus,
    TierLoad,
    TierStore,
    TokenSplit,
)
from tierscope.domain.tiers import Tier
from tierscope.registry.spans import KV_LOAD, KV_LOOKUP, SPANS
from tierscope.telemetry.request_spans import ATTRIBUTES, attributes_of, move_spans, spans_of

RECORD = RequestRecord(
    engine=EngineId("shop", "chat", "pod-0", 1),
    model="llama",
    request_id="chatcmpl-1",
    attempt=0,
    status=RequestStatus.SERVED,
    tokens=TokenSplit(100, l0=32, l1=16, l2=16, computed=36),
    block_tokens=16,
    block_hashes=(1, 2, 3),
    arrived_unix_seconds=1_700_000_000.25,
    admitted_unix_seconds=1_700_000_000.5,
    queue_seconds=0.25,
    load_seconds=0.125,
    ttft_seconds=1.5,
)
YEAR_2001 = 1e9


def dated(record):
    """A record of this century: what is taken from its times leaves them unix times."""
    return replace(
        record,
        arrived_unix_seconds=record.arrived_unix_seconds + YEAR_2001,
        admitted_unix_seconds=record.admitted_unix_seconds + YEAR_2001,
    )


any_record = given(record=strategies.request_records().map(dated))


def times_of(span):
    """Start and end in seconds after the second the record's times are in."""
    return tuple((ns - 1_700_000_000 * 10**9) / 1e9 for ns in (span.start_ns, span.end_ns))


LOOKUP = CacheLookup(
    "node",
    1_700_000_000.4375,
    64,
    32,
    1_700_000_000.3125,
    (
        TierLoad(Tier.L2, 1_700_000_000.425, 1_700_000_000.375, 2, 4096, "fs"),
        TierLoad(Tier.L1, 1_700_000_000.5625, 1_700_000_000.5, 1, 2048),
    ),
)
"""Everything that a cache server can tell of an admission."""


STORE = TierStore(Tier.L1, 1_700_000_002.5, 1_700_000_002.25, 3, 6144)
"""One that was told after the admission."""


def test_every_attribute_of_the_table_is_made_and_no_other():
    """A row added to the span table without a value is found here."""
    spans = (*spans_of(replace(RECORD, lookup=LOOKUP)), *move_spans("node", STORE))
    made = {span.name: set(span.attributes) for span in spans}
    absent = {"tierscope.external_reason"}

    assert made == {span.name: {each.key for each in span.attributes} - absent for span in SPANS}
    assert set(ATTRIBUTES) == {*KV_LOOKUP.attributes, *KV_LOAD.attributes}


@any_record
def test_attributes_have_the_types_of_the_table(record):
    """Whatever the record says; absent where it does not say."""
    types = {span.name: {each.key: each.value_type for each in span.attributes} for span in SPANS}

    for planned in spans_of(record):
        for key, value in planned.attributes.items():
            assert type(value) is types[planned.name][key]


def test_what_the_cache_server_did_has_its_own_times():
    """The lookup, the load from L2 within it, and the copy to the engine, as the server tells them."""
    spans = {span.name: span for span in spans_of(replace(RECORD, lookup=LOOKUP))}

    assert times_of(spans["kv.l1"]) == (0.3125, 0.4375)
    assert times_of(spans["kv.l2.read"]) == (0.375, 0.425)
    assert times_of(spans["kv.l1.read"]) == (0.5, 0.5625)
    assert spans["kv.l1"].attributes == {
        "tierscope.lookup.hit_tokens": 64,
        "tierscope.lookup.l1_hit_tokens": 32,
        "tierscope.source": "lmcache_records:node",
    }
    assert spans["kv.l2.read"].attributes == {
        "tierscope.read.adapter": "fs",
        "tierscope.read.blocks": 2,
        "tierscope.read.bytes": 4096,
        "tierscope.source": "lmcache_records:node",
    }


def test_what_was_stored_has_its_own_times():
    """They may be later than all of the admission."""
    (store,) = move_spans("node", STORE)

    assert store.name == "kv.l1.store"
    assert times_of(store) == (2.25, 2.5)
    assert store.attributes == {
        "tierscope.store.blocks": 3,
        "tierscope.store.bytes": 6144,
        "tierscope.source": "lmcache_records:node",
    }
    assert not list(move_spans("node", replace(STORE, started_unix_seconds=None)))


def test_what_began_unseen_has_no_span():
    """A start that nobody saw is not made up; the rest of the lookup is told all the same."""
    unseen = replace(LOOKUP, started_unix_seconds=None, loads=(replace(LOOKUP.loads[0], adapter=None),))

    *_, only = spans_of(replace(RECORD, lookup=unseen))

    assert only.name == "kv.l2.read"
    assert "tierscope.read.adapter" not in only.attributes


@any_record
def test_token_attributes_sum_to_the_prompt(record):
    """On one span, so that whoever sees it sees conservation."""
    lookup = spans_of(record)[0].attributes

    parts = ("l0", "l1", "l2", "external", "computed")
    assert sum(lookup[f"tierscope.tokens.{part}"] for part in parts) == lookup["tierscope.tokens.prompt"]


@any_record
def test_only_the_lookup_carries_tokens_by_tier(record):
    """Who sums an attribute over the spans of a trace counts no token twice."""
    _, *inside = spans_of(record)

    assert not [key for span in inside for key in span.attributes if key.startswith("tierscope.tokens.")]


@any_record
def test_no_span_ends_before_it_starts(record):
    """Clocks of two processes may disagree."""
    assert all(span.start_ns <= span.end_ns for span in spans_of(record))


def test_a_lookup_lasts_from_arrival_to_first_token():
    """In unix nanoseconds."""
    lookup, _ = spans_of(RECORD)

    assert lookup.name == KV_LOOKUP.name
    assert times_of(lookup) == (0.25, 1.75)


def test_a_load_lasts_from_admission_to_its_end():
    """Both as the engine saw them; its tier is the outermost of those it waited for."""
    _, load = spans_of(RECORD)

    assert load.name == KV_LOAD.name
    assert times_of(load) == (0.5, 0.625)
    assert load.attributes == {
        "tierscope.load.tier": "l2",
        "tierscope.load.tokens": 32,
        "tierscope.load_seconds": 0.125,
        "tierscope.source": "vllm_hook:shop/chat/pod-0/1",
    }


@pytest.mark.parametrize(
    ("tokens", "tier"),
    [
        (TokenSplit(100, l0=50, l1=50), "l1"),
        (TokenSplit(100, l1=1, l2=1, computed=98), "l2"),
        (TokenSplit(100, l1=50, external=50), "external"),
    ],
)
def test_a_load_is_of_its_outermost_tier(tokens, tier):
    """One wait stands for all tiers that were loaded from: the engine tells no more."""
    reason = ExternalReason.NOT_REPORTED if tokens.external else None

    _, load = spans_of(replace(RECORD, tokens=tokens, external_reason=reason))

    assert load.attributes["tierscope.load.tier"] == tier


@pytest.mark.parametrize(
    "without",
    [{"load_seconds": None}, {"tokens": TokenSplit(100, l0=32, computed=68)}],
)
def test_without_a_wait_or_without_tokens_there_is_no_load(without):
    """A start and an end that nobody saw are not made up."""
    assert [span.name for span in spans_of(replace(RECORD, **without))] == [KV_LOOKUP.name]


def test_a_lookup_without_a_first_token_ends_with_its_load():
    """An aborted request waited until then."""
    aborted = replace(RECORD, status=RequestStatus.ABORTED, ttft_seconds=None)

    lookup, load = spans_of(aborted)

    assert times_of(lookup) == (0.25, 0.625)
    assert lookup.end_ns == load.end_ns


def test_a_readmission_begins_when_the_tiers_are_asked_again():
    """It arrived long before; the time up to its preemption is its first admission's."""
    again = replace(
        RECORD,
        attempt=1,
        status=RequestStatus.READMITTED,
        admitted_unix_seconds=1_700_000_009.0,
        queue_seconds=0.5,
        ttft_seconds=None,
    )

    lookup, load = spans_of(again)

    assert times_of(lookup) == (8.5, 9.125)
    assert times_of(load) == (9.0, 9.125)


@pytest.mark.parametrize("status", RequestStatus)
def test_only_a_request_that_ended_without_a_token_is_an_error(status):
    """A sampler that keeps errors keeps these; what is unresolved is not known to be one."""
    attempt = int(status is RequestStatus.READMITTED)

    lookup, *_ = spans_of(replace(RECORD, status=status, attempt=attempt))

    assert (lookup.error is not None) == (status is RequestStatus.ABORTED)


def test_external_tokens_say_why():
    """Absent where there are none."""
    record = replace(
        RECORD,
        tokens=TokenSplit(100, external=64, computed=36),
        external_reason=ExternalReason.NOT_REPORTED,
    )

    assert attributes_of(record, KV_LOOKUP)["tierscope.external_reason"] == "tier_not_reported"
    assert "tierscope.external_reason" not in attributes_of(RECORD, KV_LOOKUP)


@pytest.mark.parametrize(
    ("engines", "shown"),
    [
        ("0_cmpl-q7-0", "cmpl-q7-0"),
        ("1_chatcmpl-q7", "chatcmpl-q7"),
        ("chatcmpl-1_cmpl-2", "chatcmpl-1_cmpl-2"),
        ("7_of_mine", "7_of_mine"),
    ],
)
def test_the_id_is_the_one_of_the_engines_own_span(engines, shown):
    """The engine numbers the completions of one request; its API and its spans do not show that."""
    lookup, *_ = spans_of(replace(RECORD, request_id=engines))

    assert lookup.attributes["gen_ai.request.id"] == shown


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0, 1e30])
@pytest.mark.parametrize("field", ["arrived_unix_seconds", "admitted_unix_seconds"])
def test_times_that_are_none_are_refused(field, seconds):
    """Whoever sends counts it."""
    with pytest.raises((ValueError, OverflowError)):
        spans_of(replace(RECORD, **{field: seconds}))
