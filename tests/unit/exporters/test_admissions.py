"""What became of each admission: real runs to the token, and every order in which records can come."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.admissions import Admissions, EngineFacts
from exporters.vllm.hook import HashDelta, Hello, Stats, decode_records
from tests.captured import ENGINE, expected, hook_payloads
from tests.hook_records import admit, finish, first, hash_secret, loaded
from tierscope.domain.requests import (
    NO_TOKENS,
    RequestStatus,
    TokenSplit,
    TraceContext,
)

SUMS = {
    "a_alone": TokenSplit(15_976, l0=3_488, computed=12_488),
    "b_offloading": TokenSplit(16_588, l0=3_488, l1=256, l2=1_312, computed=11_532),
    "c_lmcache_mp": TokenSplit(15_976, l0=3_488, external=1_472, computed=11_016),
}


@pytest.fixture
def admissions():
    return Admissions(ENGINE, EngineFacts("m", 16), hash_secret)


def outcomes(admissions, *records):
    """(status, attempt) of what the records finished, and what was odd."""
    outcome = admissions.apply(records)
    return (
        [(record.status, record.attempt) for record in outcome.records],
        [oddity.what for oddity in outcome.oddities],
    )


@pytest.mark.parametrize("run", SUMS)
def test_a_real_runs_records_sum_to_the_engines_counters(captures, run):
    """First admissions that reached a first token, by origin; re-admissions are rows apart."""
    folder = captures / "observer" / run
    admissions = Admissions(ENGINE, EngineFacts(), hash_secret)
    records = []
    for payload in hook_payloads(folder):
        outcome = admissions.apply(decode_records(payload, where="capture").records)
        assert not outcome.oddities
        records += outcome.records

    told = expected(folder)
    assert sum((record.tokens for record in records if record.counts), NO_TOKENS) == SUMS[run]
    assert Counter(record.status for record in records) == {
        RequestStatus.SERVED: told["first_admissions"],
        RequestStatus.READMITTED: told["re_admissions"],
    }
    served = [record for record in records if record.counts]
    assert sum(len(record.block_hashes) for record in served) == told["prompt_hashes"]
    assert len({found for record in served for found in record.block_hashes}) == told["distinct_hashes"]
    assert {record.model for record in records} == {"tiny-llama"}
    assert all(record.ttft_seconds > 0 and record.queue_seconds >= 0 for record in served)
    loads = sum(record.load_seconds is not None for record in records)
    assert loads == told["records"].get("loaded", 0)


def test_trace_contexts_of_a_real_run_are_kept(captures):
    """With tracing on in the engine, each request brings its caller's; two children share one."""
    admissions = Admissions(ENGINE, EngineFacts(), hash_secret)
    records = [
        record
        for payload in hook_payloads(captures / "observer" / "a_alone")
        for record in admissions.apply(decode_records(payload, where="capture").records).records
        if record.counts
    ]

    assert len(records) == 40
    assert len({record.trace.trace_id for record in records}) == 39
    assert records[0].trace == TraceContext(
        "7fe860589e007b5715997a2b7419eeae", "e3af91db1a807bd7", sampled=True
    )


def test_a_request_is_served_at_its_first_token(admissions):
    """Not before, and its end changes nothing."""
    assert outcomes(admissions, admit()) == ([], [])
    assert outcomes(admissions, first()) == ([(RequestStatus.SERVED, 0)], [])
    assert outcomes(admissions, finish()) == ([], [])


def test_times_are_of_the_admission(admissions):
    """Queue from arrival to admission, load wait and time to first token as the engine says them."""
    (record,) = admissions.apply([admit(external=16), loaded(), first()]).records

    assert record.arrived_unix_seconds == 9.5
    assert record.admitted_unix_seconds == 10.0
    assert record.queue_seconds == 0.5
    assert record.load_seconds == 0.1
    assert record.ttft_seconds == 0.7


def test_an_end_before_the_first_token_is_an_abort(admissions):
    """Its tokens are in no sum, because the engine counts them in none."""
    outcome = admissions.apply([admit(), finish()])

    (record,) = outcome.records
    assert record.status is RequestStatus.ABORTED
    assert not record.counts


def test_a_request_given_up_while_it_waited_is_no_admission(admissions):
    """The hook tells its end alone."""
    assert outcomes(admissions, finish(admitted=False)) == ([], [])


def test_a_preempted_request_is_a_row_of_its_own(admissions):
    """UD-05: with or without a first token, the first admission counts once and the second never."""
    found, odd = outcomes(admissions, admit(), first(), admit(attempt=1, local=16), finish())

    assert found == [(RequestStatus.SERVED, 0), (RequestStatus.READMITTED, 1)]
    assert not odd


def test_preempted_before_its_first_token_it_is_served_all_the_same(admissions):
    """The first token after the second admission is the first token of the first."""
    found, _ = outcomes(admissions, admit(), admit(attempt=1), admit(attempt=2), first(), finish())

    assert found == [
        (RequestStatus.READMITTED, 1),
        (RequestStatus.READMITTED, 2),
        (RequestStatus.SERVED, 0),
    ]


def test_the_load_of_a_readmission_is_its_own(admissions):
    """It waits for its load, and adds nothing to the first admission's."""
    records = admissions.apply(
        [admit(external=16), loaded(wait_s=0.1), admit(attempt=1, external=16), loaded(wait_s=0.4), first()]
    ).records

    assert [(record.status, record.load_seconds) for record in records] == [
        (RequestStatus.READMITTED, 0.4),
        (RequestStatus.SERVED, 0.1),
    ]


def test_a_readmission_whose_load_never_ended_is_told_at_the_end(admissions):
    """Nothing is kept back for good."""
    found, _ = outcomes(admissions, admit(), first(), admit(attempt=1, external=16), finish())

    assert found == [(RequestStatus.SERVED, 0), (RequestStatus.READMITTED, 1)]


def test_children_of_one_request_count_each(admissions):
    """With n=2 the engine admits two, each with the whole prompt, told apart by their prefix."""
    found, _ = outcomes(admissions, admit("0_r"), admit("1_r"), first("0_r"), first("1_r"))

    assert found == [(RequestStatus.SERVED, 0)] * 2


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"lora": "adapter-x", "hashes": [5, 6]}, id="under a LoRA adapter"),
        pytest.param({"salt": "tenant-b", "hashes": [7, 8]}, id="salted"),
        pytest.param({"hashes": []}, id="prompt embeddings without hashes"),
        pytest.param({"hashes": None}, id="hashes not known"),
        pytest.param({"skip": True, "hashes": [5, 6]}, id="prompt_logprobs"),
    ],
)
def test_whatever_a_request_is_it_counts_once_under_its_engines_model(admissions, fields):
    """LoRA, salts and embeddings change hashes, which tell their blocks apart, but no token's place."""
    record = {"t": "admit", "ts": 10.0, "rid": "r", "attempt": 0, "prompt": 40, "local": 0, **fields}
    batch = decode_records(msgspec.msgpack.encode([record]), where="test")

    (served,) = admissions.apply([*batch.records, first()]).records

    assert not batch.oddities
    assert (served.model, served.status, served.tokens) == (
        "m",
        RequestStatus.SERVED,
        TokenSplit(40, computed=40),
    )
    assert served.block_hashes == tuple(fields["hashes"] or ())


def test_a_request_that_skips_the_cache_says_so(admissions):
    """UD-03: with prompt_logprobs all is computed, and no cache was asked."""
    records = admissions.apply([admit(skip=True), first(), admit("other"), first("other")]).records

    assert [(record.asks_cache, record.tokens.computed) for record in records] == [(False, 40), (True, 40)]


def test_a_record_that_comes_twice_counts_once(admissions):
    """UD-02: admissions and first tokens told again are named where they would have doubled a sum."""
    found, odd = outcomes(
        admissions, admit(), admit(), first(), first(), admit(), admit(attempt=1), admit(attempt=1)
    )

    assert found == [(RequestStatus.SERVED, 0), (RequestStatus.READMITTED, 1)]
    assert odd == ["admission told twice"] * 3


def test_records_of_an_admission_nobody_saw_are_named(admissions):
    """After a gap, a first token or a load may belong to nothing we know."""
    assert outcomes(admissions, first(), loaded(), finish()) == (
        [],
        ["first token of an unknown admission", "load of an unknown admission"],
    )


def test_a_restart_resolves_what_was_open(admissions):
    """The new engine knows nothing of them, and neither do its records."""
    admissions.apply([admit("a"), admit("b"), first("b"), admit("b", attempt=1, external=16)])

    records = admissions.restart().records

    assert {(record.request_id, record.status) for record in records} == {
        ("a", RequestStatus.UNRESOLVED),
        ("b", RequestStatus.READMITTED),
    }
    assert outcomes(admissions, admit("a"), first("a")) == ([(RequestStatus.SERVED, 0)], [])


def test_the_table_of_open_requests_is_bounded():
    """The oldest is given up as unresolved; a served one leaves without a trace."""
    admissions = Admissions(ENGINE, EngineFacts("m", 16), hash_secret, most_requests=2)

    outcome = admissions.apply([admit("a"), admit("b"), first("b"), admit("c"), admit("d")])

    assert [(record.request_id, record.status) for record in outcome.records] == [
        ("b", RequestStatus.SERVED),
        ("a", RequestStatus.UNRESOLVED),
    ]


def test_an_admission_that_does_not_add_up_is_refused_once(admissions):
    """It is named, counted, and its later records are no surprise."""
    assert outcomes(admissions, admit(local=41), first(), finish()) == (
        [],
        ["admission that does not add up"],
    )


def test_more_blocks_than_the_prompt_holds_is_refused(admissions):
    """A chain and a block size that contradict the prompt are no record."""
    assert outcomes(admissions, admit(hashes=[1, 2, 3]), first()) == ([], ["admission that does not add up"])


def test_session_and_salt_leave_as_keyed_hashes(admissions):
    """Neither raw value is anywhere in the record."""
    (record,) = admissions.apply([admit(session="alice", salt="tenant-b"), first()]).records

    assert record.session_hash == hash_secret("alice")
    assert record.salt_hash == hash_secret("tenant-b")
    assert "alice" not in repr(record)
    assert "tenant-b" not in repr(record)


def test_a_readmission_has_the_caller_of_its_request(admissions):
    """The hook tells it once, with the first admission."""
    caller = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}

    records = admissions.apply([admit(trace=caller), first(), admit(attempt=1)]).records

    assert [record.trace for record in records] == [TraceContext("1" * 32, "2" * 16)] * 2


def test_a_delta_chain_is_made_whole(admissions):
    """The record has the whole chain; an unknown anchor costs the chain, not the tokens."""
    outcome = admissions.apply(
        [
            admit("a", hashes=[1, 2]),
            admit("b", hashes=HashDelta(start=1, anchor=1, new=[3])),
            admit("c", hashes=HashDelta(start=1, anchor=8, new=[9])),
            *map(first, "abc"),
        ]
    )

    assert [record.block_hashes for record in outcome.records] == [(1, 2), (1, 3), ()]
    assert [oddity.what for oddity in outcome.oddities] == ["chain with an unknown anchor"]


def test_without_a_hello_the_block_size_is_told_by_the_chain():
    """The engine's first record may be lost; a prompt of 100 tokens in 3 full blocks has blocks of 32."""
    admissions = Admissions(ENGINE, EngineFacts(), hash_secret)

    (record,) = admissions.apply([admit(prompt=100, hashes=[1, 2, 3]), first()]).records

    assert record.block_tokens == 32
    assert record.model == "unknown"


def test_records_that_the_hook_dropped_are_missing(admissions):
    """The hook counts them since its start; a hook first seen later is measured from then on."""
    late = admissions.apply([Stats(ts=1.0, dropped=100), Stats(ts=2.0, dropped=103)])
    hello = Hello(ts=3.0, block_size=16, model="m")
    new = admissions.apply([hello, Stats(ts=4.0, dropped=2), Stats(ts=5.0, dropped=2)])

    assert (late.dropped, new.dropped) == (3, 2)


def test_a_hello_said_again_counts_no_drop_twice(admissions):
    """The hook greets again for readers that came late; its statistics go on."""
    hello = Hello(ts=1.0, block_size=16, model="m")

    outcome = admissions.apply([hello, Stats(ts=2.0, dropped=3), hello, Stats(ts=3.0, dropped=4)])

    assert outcome.dropped == 4


lives = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 40)), max_size=10
)


@given(lives=lives, data=st.data())
def test_however_requests_interleave_each_counts_as_the_engine_counts_it(lives, data):
    """Any number of preemptions, aborts and duplicates: served exactly those with a first token, once."""
    scripts = []
    for number, (preemptions, reaches_first, first_early, doubled, local) in enumerate(lives):
        rid = f"r{number}"
        script = [admit(rid, local=local)]
        if reaches_first and first_early:
            script.append(first(rid))
        script += [admit(rid, attempt=attempt + 1) for attempt in range(preemptions)]
        if reaches_first and not first_early:
            script.append(first(rid))
        scripts.append(iter([record for record in script for _ in range(1 + doubled)] + [finish(rid)]))
    order = data.draw(st.permutations([n for n in range(len(lives)) for _ in range(12)]))
    admissions = Admissions(ENGINE, EngineFacts("m", 16), hash_secret)

    outcome = admissions.apply(record for n in order for record in [next(scripts[n], None)] if record)

    counted = Counter(record.status for record in outcome.records)
    assert counted[RequestStatus.SERVED] == sum(life[1] for life in lives)
    assert counted[RequestStatus.ABORTED] == sum(not life[1] for life in lives)
    assert counted[RequestStatus.READMITTED] == sum(life[0] for life in lives)
    assert counted[RequestStatus.UNRESOLVED] == 0
    assert sum((r.tokens for r in outcome.records if r.counts), NO_TOKENS).l0 == sum(
        life[4] for life in lives if life[1]
    )
