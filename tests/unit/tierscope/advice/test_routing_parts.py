"""What a comparison of routers is made of: the stretch, the policies that can be used, the first blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tests.kubernetes import Objects
from tests.scenarios.routed import Routed, behind_gateway, wired
from tests.scenarios.routed import talks as talks_in_turn
from tierscope.advice.routing import sample as sampling
from tierscope.advice.routing.model import RoutedFleet, fleet_of
from tierscope.advice.routing.monopoly import first_piece
from tierscope.advice.routing.options import Option, kvaware_is_blind, options_of
from tierscope.advice.routing.sample import sample_of
from tierscope.advice.routing.study import Comparison, compare
from tierscope.advice.thresholds import SLICES
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.wiring import CacheScope
from tierscope.sim.routers.gateway import Weights

CHUNK = w.CHUNK_BYTES


def deployed(**changes):
    return w.deployment(128 * CHUNK, l0_bytes=256 * w.BLOCK_TOKENS * w.BYTES_PER_TOKEN, replicas=2, **changes)


def test_the_stretch_is_the_newest_and_in_order_of_arrival(monkeypatch):
    """A request that waited long came before others that were admitted first."""
    monkeypatch.setattr(sampling, "MOST_ROUTED_REQUESTS", 3)
    window = w.window(w.cycle(5, 6), seconds=6.0, replicas=2)
    sample = sample_of(replace(window, queue_seconds=np.array([0, 0, 0, 0, 0, 1.5])), 2)

    assert sample.requests.tolist() == [3, 5, 4]
    assert sample.placement.tolist() == [1, 1, 0]
    assert sample.trace.at_ms.tolist() == [0, 500, 1000]
    assert sample.trace.accesses == 3 * 16


def test_the_stretch_ends_where_blocks_become_too_many(monkeypatch):
    """Long prompts make it shorter."""
    monkeypatch.setattr(sampling, "MOST_ROUTED_ACCESSES", 40)

    assert sample_of(w.window(w.cycle(5, 6)), 2).requests.tolist() == [4, 5]


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"wiring": None}, "which path is used is not known"),
        ({"wiring": wired()}, "requests go to /v1/chat/completions"),
        ({"wiring": wired("/v1/completions", l1_scope=CacheScope.NODE)}, "a server of the node"),
        ({"wiring": wired("/v1/completions", l1_is_on=False)}, "nothing but L1, and there is none"),
        ({"wiring": replace(wired("/v1/completions"), hash_seeds=("0", "random"))}, "different hash seeds"),
        ({"wiring": wired("/v1/completions", engine_image="vllm/vllm-openai:v0.18.2")}, "image has 0.18.2"),
        ({"wiring": wired("/v1/completions", engine_image="vllm/vllm-openai:v0.19.1")}, None),
        ({"wiring": wired("/v1/completions", engine_image="aws/vllm:0.11.1-gpu-py312")}, None),
        ({"wiring": wired("/v1/completions", engine_image="mine/engine:pinned")}, None),
        ({"wiring": wired("/v1/completions")}, None),
    ],
)
def test_kvaware_is_left_out_wherever_it_would_find_nothing(changes, because):
    """Its controller sees L1 in engines of one hash seed, and prompts on the completions path."""
    said = kvaware_is_blind(deployed(**changes))

    assert (said is None) == (because is None)
    assert because is None or because in said


def test_session_is_left_out_where_clients_send_none():
    """Without a session it is a count of requests."""
    options = options_of(deployed(), sample_of(w.window(w.cycle(5, 40), replicas=2), 2))

    assert options.today == Option(RoutingPolicy.ROUNDROBIN)
    assert [one.policy for one in options.excluded] == [RoutingPolicy.SESSION, RoutingPolicy.KVAWARE]
    assert [one.policy for one in options.others] == [RoutingPolicy.PREFIXAWARE]


def test_behind_a_gateway_only_weights_can_be_chosen():
    """Those in force are today's; a weight that is not set is the chart's."""
    of = deployed(routing=RoutingPolicy.GATEWAY, wiring=behind_gateway(prefix=1))
    options = options_of(of, sample_of(w.window(w.cycle(5, 40)), 2))

    assert options.today.weights == Weights(2, 2, 1)
    assert options.today.name == "queue 2, kvCache 2, prefix 1"
    assert {one.policy for one in options.others} == {RoutingPolicy.GATEWAY}


def test_the_engine_takes_at_once_what_its_arguments_say():
    """Tokens of a step and requests under way, written either way."""
    wiring = replace(wired(), engine_args=("--max-num-seqs=16", "--max-num-batched-tokens", "8192"))
    window = w.window(w.cycle(5, 60), replicas=2)
    fleet = fleet_of(w.evidence(window), deployed(wiring=wiring), sample_of(window, 2))

    assert isinstance(fleet, RoutedFleet)
    assert fleet.calibration.times[-2:] == (8192, 16)


def test_words_that_are_no_numbers_set_no_limit():
    """What an argument's author meant by them is not known, and no reason to give no advice."""
    window = w.window(w.cycle(5, 60), replicas=2)
    limits = set()
    for words in ((), ("--max-num-seqs", "²"), ("--max-num-seqs=" + 5000 * "9",), ("--max-num-seqs=nan",)):
        of = deployed(wiring=replace(wired(), engine_args=words))
        fleet = fleet_of(w.evidence(window), of, sample_of(window, 2))
        limits.add(fleet.calibration.times[-2:])

    assert len(limits) == 1


def test_a_comparison_begins_warm():
    """UD-50: five documents in turn miss at first only, and that is before what counts."""
    window = w.window(w.cycle(5, 60), replicas=1)
    of = w.deployment(CHUNK, l0_bytes=256 * w.BLOCK_TOKENS * w.BYTES_PER_TOKEN, replicas=1)
    compared = compare(w.served(window, of), of, now_unix_seconds=0)

    assert isinstance(compared, Comparison)
    assert compared.today.predicted.hit_ratio.l0.value == 256 / 257
    assert compared.today.ttft_ratio.value == 1.0


def slower_later(factor):
    """Conversations in turn whose second half, of what counts, took longer; and the TTFT that counts."""
    talks = Routed(talks_in_turn(), seconds_between=0.06)
    evidence, of = talks.evidence(), talks.deployment()
    first = sample_of(evidence.window, of.replicas).first_measured
    later = np.arange(evidence.window.requests) >= (first + evidence.window.requests) // 2
    seconds = np.where(later, factor, 1.0) * evidence.window.ttft_seconds
    evidence = replace(evidence, window=replace(evidence.window, ttft_seconds=seconds))
    compared = compare(evidence, of, now_unix_seconds=0)
    assert isinstance(compared, Comparison)
    return compared, compared.fleet.sample.of(seconds)


def test_intervals_of_recorded_times_hold_either_half_of_the_window():
    """Whatever is advised: TTFT that doubled within the window is not foretold to a few percent."""
    compared, seconds = slower_later(2.0)
    halves = seconds[: len(seconds) // 2], seconds[len(seconds) // 2 :]
    told = compared.today.predicted

    for estimate, of in (
        (told.ttft_mean_seconds, np.mean),
        (told.ttft_p50_seconds, np.median),
        (told.ttft_p90_seconds, lambda half: np.quantile(half, 0.9)),
    ):
        assert estimate.value == pytest.approx(of(seconds))
        for half in halves:
            assert estimate.low <= of(half) <= estimate.high


def test_the_recorded_mean_is_resampled_like_the_quantiles():
    """Where nothing shifts, a mean may be off by what its slices differ by, and by the model's error."""
    compared, seconds = slower_later(1.0)
    mean = compared.today.predicted.ttft_mean_seconds
    allowance = compared.fleet.calibration.allowance
    slices = [part.mean() for part in np.array_split(seconds, SLICES)]
    sure = np.std(slices, ddof=1) / np.sqrt(SLICES)

    assert compared.today.ttft_ratio.high == pytest.approx(1 + allowance)
    assert mean.high > (1 + allowance) * (mean.value + sure)
    assert mean.low < (1 - allowance) * (mean.value - sure)


def test_the_size_of_l0_must_be_known():
    """An engine that holds nobody knows how much, or less than a prompt, cannot be served again."""
    recorded = w.evidence(w.window(w.cycle(5, 60), replicas=2))
    unknown = w.deployment(CHUNK, l0_bytes=None, replicas=2)
    too_small = w.deployment(CHUNK, l0_bytes=w.BLOCK_TOKENS * w.BYTES_PER_TOKEN, replicas=2)

    assert compare(recorded, unknown, now_unix_seconds=0) == "how many tokens L0 holds is not known"
    assert "longer than what L0 is said to hold" in compare(recorded, too_small, now_unix_seconds=0)


def test_the_first_piece_is_two_blocks_of_sixteen_tokens():
    """128 characters are about 32 tokens; what is shorter does not count as sharing it."""
    a, b = w.chain_hashes(1, 4), w.chain_hashes(2, 4)
    half_shared = np.concatenate((a[:1], b[1:]))
    piece = first_piece(w.window([a, a, a, b, half_shared, a[:1]], replicas=2, engine=[0, 0, 1, 0, 0, 0]))

    assert piece.share == 3 / 6
    assert (piece.concentration, piece.busiest) == (2 / 3, "pod-0")
    assert first_piece(w.window([a[:1]])) is None
    assert first_piece(replace(w.window([]), block_tokens=0)) is None  # as a store without requests says it


def test_the_example_endpoint_can_be_compared():
    """What is read from Kubernetes is enough: its strategy, its sizes, its path."""
    of = replace(Objects().read(), model_bytes_per_token=1024.0)
    options = options_of(of, sample_of(w.window(w.cycle(5, 40), replicas=2), 2))

    assert options.today.policy is RoutingPolicy.PREFIXAWARE
    assert RoutingPolicy.ROUNDROBIN in {one.policy for one in options.others}
