"""The engine model: times worked out by hand, and tokens as without time where nothing overlaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.tierscope.sim.test_fleet import BLOCK, trace_of
from tierscope.domain.deployment import RoutingPolicy
from tierscope.sim.fleet import TierSizes, as_lmcache, workload_of
from tierscope.sim.jobs import StepTimes
from tierscope.sim.knee import knee_speed, requests_per_second
from tierscope.sim.paths import block_paths
from tierscope.sim.routers.gateway import Index, Weights
from tierscope.sim.serving import Fleet, faster, serve
from tierscope.traces.open import read_trace

TIMES = StepTimes(
    step_seconds=0.01,
    prefill_seconds_per_token=0.001,
    attention_seconds_per_pair=0.0,
    context_seconds_per_token=0.0,
    api_seconds=0.5,
    l1_fixed_seconds=0.25,
    l1_seconds_per_token=0.0001,
    l2_fixed_seconds=0.75,
    l2_seconds_per_token=0.0002,
    step_tokens=2048,
)
AMPLE = TierSizes(l0_blocks=10_000, l1_chunks=10_000, l2_chunks=10_000)
NO_TIERS = TierSizes(l0_blocks=10_000, l1_chunks=0, l2_chunks=0)


def fleet(replicas=1, sizes=AMPLE, policy=RoutingPolicy.ROUNDROBIN, times=TIMES, **more) -> Fleet:
    return Fleet(replicas=replicas, sizes=sizes, policy=policy, chunk_tokens=BLOCK, times=times, **more)


def unrelated(count, blocks=4):
    return [[blocks * i + k for k in range(blocks)] for i in range(count)]


def at(trace, *seconds):
    return replace(trace, at_ms=(np.array(seconds) * 1000).astype(np.int64))


def test_a_lone_prompt_takes_a_step_its_tokens_and_the_way_there():
    """67 tokens: 0.01 + 0.067, and 0.5 for the API."""
    served = serve(trace_of(unrelated(1)), fleet())

    assert served.ttft_seconds == pytest.approx([0.577])
    assert served.queue_seconds.tolist() == [0]


def test_a_prompt_longer_than_a_step_takes_several():
    """67 tokens in steps of 30: three steps."""
    served = serve(trace_of(unrelated(1)), fleet(times=TIMES._replace(step_tokens=30)))

    assert served.ttft_seconds == pytest.approx([0.597])


def test_attention_costs_a_pair_of_tokens_each():
    """67 tokens have 67 x 67 / 2 pairs, in one step or in three."""
    pairs = TIMES._replace(attention_seconds_per_pair=1e-4)
    one, three = (
        serve(trace_of(unrelated(1)), fleet(times=pairs._replace(step_tokens=size))).ttft_seconds[0]
        for size in (2048, 30)
    )

    assert one == pytest.approx(0.577 + 67 * 67 / 2 * 1e-4)
    assert three == pytest.approx(one + 0.02)


def test_the_second_of_two_shares_a_step_or_waits_for_the_next():
    """Both in one step where it has room for both; else the second begins when the first has ended."""
    trace = at(trace_of(unrelated(2), output=1), 0, 0)
    together = serve(trace, fleet())
    apart = serve(trace, fleet(times=TIMES._replace(step_tokens=67)))

    assert together.ttft_seconds == pytest.approx([0.644, 0.644])
    assert apart.ttft_seconds == pytest.approx([0.577, 0.654])
    assert apart.queue_seconds == pytest.approx([0, 0.077])


def test_a_hit_in_l0_is_not_computed_again():
    """Four blocks of 16 hit; three tokens are left."""
    served = serve(trace_of([[0, 1, 2, 3]] * 2), fleet())

    assert served.ttft_seconds == pytest.approx([0.577, 0.513])
    assert served.split.l0.tolist() == [0, 64]


def test_loads_from_l1_and_l2_take_their_time():
    """The other replica loads from the pool; a replica that lost its L0 loads from its own L1."""
    pool = serve(trace_of([[0, 1, 2, 3]] * 2), fleet(replicas=2))
    tiny = TierSizes(l0_blocks=6, l1_chunks=100, l2_chunks=0)
    host = serve(trace_of([[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]), fleet(sizes=tiny))

    assert pool.split.l2.tolist() == [0, 64]
    assert pool.ttft_seconds[1] == pytest.approx(0.513 + 0.75 + 64 * 0.0002)
    assert host.split.l0[2] + host.split.l1[2] == 64
    assert host.ttft_seconds[2] == pytest.approx(0.513 + 0.25 + float(host.split.l1[2]) * 0.0001)


def test_context_of_running_answers_slows_the_next_prompt():
    """A request with 67 tokens and its first answer token runs when the second comes."""
    slow = TIMES._replace(context_seconds_per_token=0.001)
    trace = at(trace_of(unrelated(2), output=1000), 0, 0.05)
    served = serve(trace, fleet(times=slow))

    assert served.ttft_seconds[1] == pytest.approx(0.077 - 0.05 + 0.01 + 0.067 + 0.068 + 0.5)


def test_steps_taken_at_once_take_as_long_as_steps_taken_one_by_one():
    """Requests of another replica interrupt decoding at other moments, and change no time here."""
    slow = TIMES._replace(context_seconds_per_token=1e-5)
    trace = trace_of(unrelated(40), output=300)
    ours = np.arange(40) % 2 == 0
    ttft = []
    for offset in (1, 137, 499):
        at_ms = np.where(ours, np.arange(40) * 250, np.arange(40) * 250 - 250 + offset // 2)
        ttft.append(serve(replace(trace, at_ms=at_ms), fleet(replicas=2, times=slow)).ttft_seconds[ours])

    assert ttft[1] == pytest.approx(ttft[0])
    assert ttft[2] == pytest.approx(ttft[0])


def test_without_memory_for_an_answer_the_youngest_waits_again():
    """Two answers that grow into ten blocks: the older one is not held up, both are answered."""
    small = TierSizes(l0_blocks=10, l1_chunks=0, l2_chunks=0)
    trace = at(trace_of(unrelated(2), output=60), 0, 0)
    served = serve(trace, fleet(sizes=small))

    assert served.refused == 0
    assert not np.isnan(served.ttft_seconds).any()


def test_what_no_engine_can_hold_is_refused():
    """Five blocks of prompt in a memory of four: computed nowhere, and said so."""
    small = TierSizes(l0_blocks=4, l1_chunks=0, l2_chunks=0)
    served = serve(trace_of(unrelated(2)), fleet(sizes=small))

    assert served.refused == 2
    assert np.isnan(served.ttft_seconds).all()
    assert served.split.computed.tolist() == [67, 67]


@pytest.mark.parametrize("sizes", [(60, 300, 600), (60, 40, 200), (40, 0, 0)])
def test_far_apart_requests_get_what_they_get_without_time(fixtures, sizes):
    """An hour between two requests of whole blocks: each tier gives what it gives one after the other."""
    paths = block_paths(read_trace(fixtures / "traces" / "conversations.jsonl"))
    lists = [part.tolist() for part in np.split(paths.ids, paths.offsets[1:-1]) if len(part)]
    trace = trace_of(lists, tail=0, output=1)
    apart = replace(trace, at_ms=np.arange(trace.requests, dtype=np.int64) * 3_600_000)
    l0, l1, l2 = sizes
    model = replace(
        fleet(replicas=3, sizes=TierSizes(l0_blocks=l0, l1_chunks=l1, l2_chunks=l2)), answers=False
    )

    served = serve(apart, model)

    workload = workload_of(apart, served.replica, 3, chunk_tokens=BLOCK)
    for ours, plain in zip(served.split, as_lmcache(workload, l0, model.rules), strict=True):
        assert np.array_equal(ours, plain)


@pytest.mark.parametrize(
    "policy", [policy for policy in RoutingPolicy if policy is not RoutingPolicy.UNKNOWN]
)
def test_every_router_serves_everything_the_same_way_twice(fixtures, policy):
    """Tokens add up, each request has a replica and a time, and the same seed gives the same to the bit."""
    trace = faster(read_trace(fixtures / "traces" / "conversations.jsonl"), 20)
    sizes = TierSizes(l0_blocks=60, l1_chunks=300, l2_chunks=600)

    one, two = (serve(trace, Fleet(replicas=3, sizes=sizes, policy=policy)) for _ in range(2))

    assert np.array_equal(sum(one.split), trace.input_tokens)
    assert set(one.replica.tolist()) <= {0, 1, 2}
    assert np.all(one.ttft_seconds > 0)
    assert np.array_equal(one.ttft_seconds, two.ttft_seconds)


def test_a_precise_gateway_knows_of_evictions():
    """Two prompts, first sent to one replica with room for one: only who is told sends one elsewhere."""
    a, b = list(range(10)), list(range(10, 20))
    fleet = Fleet(
        replicas=2,
        sizes=TierSizes(l0_blocks=11, l1_chunks=0, l2_chunks=0),
        policy=RoutingPolicy.GATEWAY,
        weights=Weights(0, 0, 1),
        seed=3,
    )
    trace = trace_of([a, b] + 20 * [a, b], output=1)
    remembering = serve(trace, fleet)
    told = serve(trace, replace(fleet, index=Index(precise=True)))
    assert remembering.replica[0] == remembering.replica[1] == told.replica[1]

    assert remembering.split.l0.sum() == 0
    assert told.split.l0.sum() == 39 * 10 * BLOCK


def test_kvaware_reads_no_chats(fixtures):
    """With completions it follows what L1 holds; chats go to the least asked, in turn."""
    trace = read_trace(fixtures / "traces" / "conversations.jsonl")
    chats = serve(trace, fleet(replicas=3, policy=RoutingPolicy.KVAWARE, chat=True))
    completions = serve(trace, fleet(replicas=3, policy=RoutingPolicy.KVAWARE))

    assert np.ptp(np.bincount(chats.replica)) < np.ptp(np.bincount(completions.replica))


def test_the_knee_is_where_waiting_doubles_the_ttft():
    """Prompts of a third of a second, one a second: the engine bears some times that, and no more."""
    trace = trace_of(unrelated(200, blocks=20), output=50)
    model = fleet(sizes=NO_TIERS, times=TIMES._replace(api_seconds=0.0))

    speed = knee_speed(trace, model)

    assert speed is not None
    assert 1.5 < speed < 4
    assert requests_per_second(trace) == pytest.approx(200 / 199)


def test_a_load_that_never_queues_has_no_knee():
    """Within sixteen times the recorded speed the mean does not double."""
    assert knee_speed(trace_of(unrelated(20)), fleet()) is None


@pytest.mark.parametrize("times", [60, 300, 3000])
def test_a_fleet_that_is_far_overloaded_has_its_knee_below_all_speeds(times):
    """It waits at a sixteenth of the speed, and further on at the speed that others are idle at, too."""
    trace = faster(trace_of(unrelated(200, blocks=20), output=50), times)

    assert knee_speed(trace, fleet(sizes=NO_TIERS, times=TIMES._replace(api_seconds=0.0))) == 0.0


def test_requests_that_come_at_once_have_no_knee():
    """No speed is another than theirs."""
    assert knee_speed(at(trace_of(unrelated(20)), *[0] * 20), fleet()) is None


LONG = 60
"""Blocks of a prompt that takes an engine of TIMES a step of almost a second."""


def test_all_that_comes_during_a_long_step_finds_the_same_replica_free():
    """Two replicas decode; while the third computes a prompt, its page is the one before, and all follow."""
    first = [[4 * i + k for k in range(4)] for i in range(2)]
    then = [[100 + LONG * i + k for k in range(LONG)] for i in range(8)]
    trace = at(trace_of(first + then, output=400), 0, 0.5, *(1 + 0.1 * np.arange(8)))
    by_load = fleet(3, NO_TIERS, RoutingPolicy.GATEWAY, weights=Weights(1, 1, 0))
    picks = serve(trace, by_load).replica

    assert len(set(picks[:3].tolist())) == 3
    assert set(picks[2:].tolist()) == {picks[2]}


def test_a_page_that_was_read_again_sends_the_next_one_elsewhere():
    """The same, but the last comes when the long step has ended."""
    first = [[4 * i + k for k in range(4)] for i in range(2)]
    then = [[100 + LONG * i + k for k in range(LONG)] for i in range(2)]
    trace = at(trace_of(first + then, output=400), 0, 0.5, 1, 2.1)
    picks = serve(trace, fleet(3, NO_TIERS, RoutingPolicy.GATEWAY, weights=Weights(1, 1, 0))).replica

    assert picks[3] != picks[2]


def test_a_gateway_is_told_of_blocks_when_their_step_has_ended():
    """One prompt twenty times in the first one's step: it is not told yet. One by memory knows at once."""
    trace = at(trace_of([list(range(LONG))] * 21, output=2), *(0.04 * np.arange(20)), 9)
    told, remembering = (
        serve(
            trace,
            fleet(2, NO_TIERS, RoutingPolicy.GATEWAY, weights=Weights(0, 0, 1), index=Index(precise=precise)),
        )
        for precise in (True, False)
    )

    assert set(told.replica[:20].tolist()) == {0, 1}
    assert set(remembering.replica.tolist()) == {remembering.replica[0]}
    assert told.split.l0[20] == LONG * BLOCK


def test_two_gateways_remember_their_own_picks_alone():
    """One prompt again and again: one gateway sends it to one replica, of two each has its own."""
    trace = trace_of([list(range(10))] * 40, output=1)
    one, two = (
        serve(
            trace,
            fleet(
                8, NO_TIERS, RoutingPolicy.GATEWAY, weights=Weights(0, 0, 1), index=Index(), routers=routers
            ),
        )
        for routers in (1, 2)
    )

    assert set(one.replica.tolist()) == {one.replica[0]}
    assert len(set(two.replica.tolist())) == 2


def test_a_proxy_refuses_what_comes_while_enough_are_open():
    """Three at once where it bears two: the third is refused; a later one is served, and so are they."""
    trace = at(trace_of(unrelated(4), output=1), 0, 0, 0, 9)
    served = serve(trace, fleet(2, NO_TIERS, most_open=2))

    assert served.refused == 1
    assert served.replica[2] == -1
    assert np.isnan(served.ttft_seconds[2])
    assert served.split.computed[2] == trace.input_tokens[2]
    assert np.all(served.replica[[0, 1, 3]] >= 0)


def test_an_answer_takes_a_step_a_token():
    """Ten tokens of it after the first, in steps of 0.01 s, and an answer of one token none."""
    ten, one = (
        serve(trace_of(unrelated(1), output=output), fleet(sizes=NO_TIERS)).answer_seconds[0]
        for output in (11, 1)
    )

    assert ten == pytest.approx(0.1)
    assert one == pytest.approx(0, abs=1e-9)
