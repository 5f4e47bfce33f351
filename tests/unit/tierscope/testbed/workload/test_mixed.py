"""The built-in traffic: the same for a seed, with prompts that share what they should."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter

import pytest

from tierscope.testbed.config import Mix
from tierscope.testbed.workload.mixed import MixedWorkload

ANSWER_SECONDS = 3.0


def workload(*, until=900.0, mix=None, seed=1):
    return MixedWorkload(
        mix or Mix(), seed=seed, block_tokens=16, max_prompt_tokens=24_000, until_seconds=until
    )


def play(source, answer_seconds=ANSWER_SECONDS):
    """All requests in the order of their times, each answered after the same time."""
    requests, tie = [], itertools.count()
    queue: list = []

    def push(request, arrival):
        if request is not None:
            heapq.heappush(queue, (request.at_seconds, next(tie), arrival, request))

    push(source.next_arrival(), True)
    while queue:
        *_, arrival, request = heapq.heappop(queue)
        if arrival:
            push(source.next_arrival(), True)
        requests.append(request)
        push(source.follow_up(request, request.at_seconds + answer_seconds), False)
    return requests


@pytest.fixture(scope="module")
def requests():
    return play(workload())


def key(request):
    return (request.request_id, request.at_seconds, request.prompt_tokens, tuple(request.hashes))


def test_a_seed_always_makes_the_same_requests(requests):
    """Two workloads of one seed agree to the last hash; another seed shares no request."""
    again = play(workload())
    other = play(workload(seed=2))

    assert list(map(key, again)) == list(map(key, requests))
    assert not {r.request_id for r in other} & {r.request_id for r in requests}


def test_a_session_says_the_same_however_long_answers_take(requests):
    """Slower engines move a session's turns, and change nothing in them."""
    slower = play(workload(), answer_seconds=20.0)

    def texts(found):
        sessions: dict[str, list] = {}
        for request in found:
            sessions.setdefault(request.session, []).append((request.prompt_tokens, request.output_tokens))
        return sessions

    quick = texts(requests)
    for session, turns in texts(slower).items():
        assert quick.get(session, turns)[: len(turns)] == turns[: len(quick.get(session, turns))]


def test_a_turn_begins_with_all_that_was_said_before(requests):
    """A session's next prompt contains its last prompt and answer, block for block."""
    last: dict[str, object] = {}
    continued = 0
    for request in requests:
        if before := last.get(request.session):
            continued += 1
            assert list(request.hashes[: len(before.hashes)]) == list(before.hashes)
            assert request.prompt_tokens > before.prompt_tokens + before.output_tokens
        last[request.session] = request
    assert continued > 100


def test_every_kind_comes_and_shares_what_it_should(requests):
    """Agents, chats and documents share their first block with others of their kind."""
    first = Counter(request.hashes[0] for request in requests)
    sessions = {request.session: request for request in requests}
    kinds = Counter(session.split("-")[0] for session in sessions)

    assert set(kinds) == {"agent", "chat", "document", "unrelated"}
    for session, request in sessions.items():
        if session.startswith("unrelated"):
            assert first[request.hashes[0]] == 1
    shared = {session.split("-")[0] for session, r in sessions.items() if first[r.hashes[0]] > 10}
    assert shared == {"agent", "chat", "document"}


def test_a_tenants_salt_shares_no_block_with_others(requests):
    """No hash occurs under two salts."""
    salts: dict[int, set] = {}
    for request in requests:
        for value in request.hashes:
            salts.setdefault(value, set()).add(request.salt)

    assert {len(found) for found in salts.values()} == {1}
    assert {salt for found in salts.values() for salt in found} > {None}


def test_hashes_cover_exactly_the_full_blocks(requests):
    """Digests are the prompt's full blocks; hashes go on to the last block the answer fills."""
    for request in requests:
        assert len(request.digests) == request.prompt_tokens // 16
        assert len(request.hashes) == (request.prompt_tokens + request.output_tokens - 1) // 16
        assert [int.from_bytes(digest, "big") for digest in request.digests] == list(
            request.hashes[: len(request.digests)]
        )


def test_the_rate_is_what_was_asked_for(requests):
    """Sessions of a kind start as often as configured, within the noise of a Poisson stream."""
    starts = {request.session.split("-")[0]: set() for request in requests}
    for request in requests:
        starts[request.session.split("-")[0]].add(request.session)

    for kind, per_second in (("chat", 0.12), ("document", 0.5), ("unrelated", 0.3)):
        expected = per_second * 900
        assert abs(len(starts[kind]) - expected) < 4 * expected**0.5


def test_a_mix_of_nothing_makes_no_request():
    """A workload without any kind ends at once."""
    nothing = Mix(agents_per_second=0, chats_per_second=0, documents_per_second=0, unrelated_per_second=0)

    assert workload(mix=nothing).next_arrival() is None
