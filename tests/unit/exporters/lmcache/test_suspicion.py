"""When an LMCache server is said to be wrong, and when it no longer is."""

from __future__ import annotations

import pytest

from exporters.lmcache.chunk_names import name_findings
from exporters.lmcache.suspicion import LAST_CHUNKS, MOST_EVICTED, ServerJudge, ServerSuspect
from tierscope.analytics.chunk_names import LAST_COMPARED, MOST_PROMPTS, PromptNames


@pytest.fixture
def judge():
    return ServerJudge("server")


def found(judge):
    return {finding.kind: finding.error for finding in judge.findings()}


def test_nothing_is_wrong_with_a_server_that_did_nothing(judge):
    """Too little is judged in no way."""
    judge.came([1, 2], 1.0)

    assert not found(judge)


def test_chunks_that_come_back_after_making_room_are_thrash(judge):
    """With how many, and how soon; it is over when new ones come in."""
    judge.made_room(range(100), 10.0)
    judge.came(range(50), 12.5)
    judge.came(range(200, 250), 12.5)

    thrash = found(judge)[ServerSuspect.L1_THRASH]
    assert "100 chunks that came into L1, 50 had been evicted" in thrash.what
    assert "within 2.5 s" in thrash.what
    judge.came(range(1_000, 1_000 + LAST_CHUNKS), 13.0)
    assert not found(judge)


def test_only_so_many_evicted_chunks_are_remembered(judge):
    """The oldest are forgotten, and count as new when they come."""
    judge.made_room(range(MOST_EVICTED + 200), 1.0)
    judge.came(range(200), 2.0)

    assert not found(judge)


def test_stores_that_are_not_kept_are_told_while_they_go_on(judge):
    """A few in a thousand are not."""
    judge.stored(995, kept=True)
    judge.stored(5, kept=False)
    assert not found(judge)

    judge.stored(10, kept=False)
    assert "15 were answered as stored and were not kept" in found(judge)[ServerSuspect.STORE_REFUSED].what

    judge.stored(LAST_CHUNKS, kept=True)
    assert not found(judge)


@pytest.mark.parametrize(("rate", "slower"), [(None, False), (1_000.0, False), (1_300.0, True)])
def test_l2_is_judged_against_what_the_engine_computes(rate, slower):
    """128 tokens of 16,384 bytes in 0.1 s are 1,280 tokens/s; the break-even is the rate in bytes."""
    judge = ServerJudge("server", rate)
    judge.hit(256, 4)
    for _ in range(10):
        judge.loaded(0.1, 2 * 8_192, 2)

    findings = found(judge)

    assert (ServerSuspect.L2_SLOWER in findings) is slower
    if slower:
        error = findings[ServerSuspect.L2_SLOWER]
        assert "read 160.0 KiB/s, which is 1280 tokens/s; the engine computes 1300 tokens/s" in error.what
        assert "pays from 162.5 KiB/s on" in error.fix


def test_servers_that_name_equal_prompts_differently_are_a_pair():
    """UD-41: each is told with the other's name, as long as no prefix has one name in both."""
    names = PromptNames()
    for prefix in range(3):
        names.servers.told("a", prefix, 100 + prefix)
        names.servers.told("b", prefix, 200 + prefix)
        names.servers.told("c", prefix, 100 + prefix)

    of = {server: [finding.error.what for finding in name_findings(names, server)] for server in "abc"}
    assert "a and b (3 prompts)" in of["a"][0]
    assert "b and a (3 prompts) and b and c (3 prompts)" in of["b"][0]
    assert "a and c" not in of["a"][0]
    assert "c and b (3 prompts)" in of["c"][0]


def test_servers_that_agree_are_none():
    """UD-41: with a hash that needs no seed nothing is wrong, however the engines hash."""
    names = PromptNames()
    for server in "ab":
        names.servers.told(server, 1, 100)

    assert not [*name_findings(names, "a"), *name_findings(names, "b")]


def test_a_pair_is_over_when_a_server_comes_back_with_the_right_seed():
    """The last prompts count, not those before its restart."""
    names = PromptNames()
    for prefix in range(LAST_COMPARED):
        names.servers.told("a", prefix, prefix)
        names.servers.told("b", prefix, prefix + 1)
    assert [*name_findings(names, "a")]

    names.servers.told("b", 5, 5)

    assert not [*name_findings(names, "a")]


def test_who_differs_from_a_fleet_differs_from_each_of_it_until_it_agrees_with_one():
    """The whole fleet is linked, so one name in common with any of it is one with all."""
    names = PromptNames()
    fleet = [f"server-{n}" for n in range(50)]
    for prefix in range(3):
        for server in fleet:
            names.servers.told(server, prefix, prefix)
        names.servers.told("odd", prefix, 100 + prefix)

    assert names.cache_pairs() == {("odd", server): 3 for server in fleet}
    names.servers.told("odd", 3, 3)
    names.servers.told("server-1", 3, 3)
    assert names.cache_pairs() == {}


def test_only_so_many_prefixes_are_remembered():
    """The oldest is forgotten, and compared with nobody's."""
    names = PromptNames()
    for prefix in range(MOST_PROMPTS + 1):
        names.servers.told("a", prefix, prefix)

    names.servers.told("b", 0, 7)

    assert not [*name_findings(names, "a")]
