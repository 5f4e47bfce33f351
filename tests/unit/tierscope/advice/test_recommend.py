"""Advice on workloads whose best sizes are known from how they are made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.document import ChangeKind, FindingKind, Recommendation, Status
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import Deployment
from tierscope.domain.events import TierSample
from tierscope.domain.identity import SourceKind
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence

CHUNK = w.CHUNK_BYTES
WORKING_SET = 160 * CHUNK
"""Forty documents of four chunks, asked for in turn: an L1 of 160 chunks hits everything, of 80 nothing."""


def advise(evidence: Evidence, deployment: Deployment) -> Recommendation:
    return recommend(evidence, deployment, now_unix_seconds=w.NOW)


def advise_on_cycle(l1_bytes: float, **changes) -> Recommendation:
    deployment = w.deployment(l1_bytes, **changes)
    return advise(w.served(w.window(w.cycle(40, 1000)), deployment), deployment)


def kinds(document: Recommendation) -> list[FindingKind]:
    return [finding.kind for finding in document.findings]


def test_a_cycle_that_does_not_fit_asks_for_exactly_its_working_set():
    """Below the working set LRU hits nothing, at it everything; no size between is of use."""
    document = advise_on_cycle(80 * CHUNK)

    [change] = document.changes
    assert document.status is Status.RECOMMEND
    assert (change.id, change.kind, change.target) == ("tier_size:l1", ChangeKind.TIER_SIZE, "l1")
    assert (change.from_, change.to, change.unit) == (80 * CHUNK, WORKING_SET, "bytes")
    assert change.predicted.hit_ratio.l1.value == pytest.approx(256 / 257)


def test_a_size_that_attains_the_target_is_left_alone():
    """At the working set nothing smaller does and nothing larger helps."""
    document = advise_on_cycle(WORKING_SET)

    assert document.status is Status.NO_CHANGE
    assert document.changes == ()


def test_too_much_memory_is_given_back_as_readily():
    """Ten working sets serve no more than one."""
    document = advise_on_cycle(10 * WORKING_SET)

    [change] = document.changes
    assert (change.from_, change.to) == (10 * WORKING_SET, WORKING_SET)
    assert document.curves[Tier.L1].recommended.hit_ratio == document.curves[Tier.L1].current.hit_ratio


def test_a_saving_too_small_for_a_restart_is_not_advised():
    """Five percent less memory is not worth an empty L0 and L1."""
    assert advise_on_cycle(1.05 * WORKING_SET).status is Status.NO_CHANGE


def test_the_limit_is_kept_and_said_to_be_in_the_way():
    """Where a node has no room for the target, the most that is allowed is advised if it helps."""
    deployment = w.deployment(100 * CHUNK, limits=(300 * CHUNK, None))
    window = w.window(w.drawn(400, 4000, np.random.default_rng(1)))
    document = advise(w.served(window, deployment), deployment)

    [change] = document.changes
    assert change.to == 300 * CHUNK
    assert FindingKind.LIMIT_BELOW_TARGET in kinds(document)
    assert "limit" in change.why


def test_each_replica_needs_its_own_share():
    """Two replicas in turn over forty documents see twenty each: half the working set a replica."""
    deployment = w.deployment(20 * CHUNK, replicas=2)
    document = advise(w.served(w.window(w.cycle(40, 1000), replicas=2), deployment), deployment)

    [change] = document.changes
    assert change.to == WORKING_SET / 2


def test_l2_is_sized_for_what_l1_leaves():
    """Odd cycles over two replicas: the pool sees all, and shrinks to the one working set they share."""
    deployment = w.deployment(8 * CHUNK, 1000 * CHUNK, replicas=2, limits=(8 * CHUNK, None))
    document = advise(w.served(w.window(w.cycle(41, 1000), replicas=2), deployment), deployment)

    [change] = document.changes
    assert change.target == "l2"
    assert change.to == pytest.approx(41 * 4 * CHUNK, rel=1 / 32)
    assert change.predicted.hit_ratio.total.value == pytest.approx(256 / 257)


def test_a_pool_is_not_shrunk_below_what_it_came_to_hold():
    """A full Curvine pool refuses new chunks, so what it was seen to hold is the least."""
    deployment = w.deployment(8 * CHUNK, 1000 * CHUNK, replicas=2, limits=(8 * CHUNK, None))
    held = TierSample(Tier.L2, "pool", w.START, capacity_bytes=1000 * CHUNK, used_bytes=500 * CHUNK)
    document = advise(
        w.served(w.window(w.cycle(41, 1000), replicas=2), deployment, samples=[held]), deployment
    )

    [change] = document.changes
    assert change.to == pytest.approx(550 * CHUNK, rel=1 / 32)
    assert "refuses new chunks" in change.why


def test_the_interval_covers_what_comes_next():
    """On stationary traffic the hit ratio of the following hours lies in the interval 9 times of 10."""
    covered = 0
    for seed in range(20):
        chains = w.drawn(300, 6000, np.random.default_rng(seed))
        deployment = w.deployment(100 * CHUNK)
        document = advise(w.served(w.window(chains[:3000]), deployment), deployment)
        [change] = document.changes
        after = w.served(w.window(chains), w.deployment(change.to)).window
        truth = 1 - after.computed[3000:].sum() / after.prompt[3000:].sum()
        total = change.predicted.hit_ratio.total
        covered += total.low <= truth <= total.high

    assert covered >= 18


def test_too_little_traffic_abstains_and_says_how_long_to_wait():
    """100 requests in ten minutes: 300 take another twenty."""
    deployment = w.deployment(80 * CHUNK)
    document = advise(w.served(w.window(w.cycle(10, 100), seconds=600.0), deployment), deployment)

    missing = {part.what: part for part in document.evidence.missing}
    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert missing["requests in the window"].wait_seconds == pytest.approx(1200, rel=0.02)
    assert kinds(document) == [FindingKind.LOW_TRAFFIC]
    assert document.changes == ()


def test_an_empty_window_abstains():
    """No record at all is no advice, and no division by nothing."""
    deployment = w.deployment(80 * CHUNK)
    document = advise(w.evidence(w.window([]), covered=()), deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert document.current.ttft.p50 is None


def test_a_workload_that_changed_is_flagged_and_not_advised_on():
    """The last part asks for other, far more varied documents: the past is no guide."""
    rng = np.random.default_rng(0)
    later = [chain + np.uint64(1 << 50) for chain in w.drawn(2000, 900, rng, skew=0.3)]
    deployment = w.deployment(200 * CHUNK)
    document = advise(w.served(w.window([*w.drawn(300, 2500, rng), *later]), deployment), deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert document.evidence.drift is True
    assert FindingKind.DRIFT in kinds(document)


def test_lost_records_abstain():
    """With a tenth of the records lost, reuse cannot be told."""
    deployment = w.deployment(80 * CHUNK)
    evidence = w.served(w.window(w.cycle(40, 1000)), deployment, covered=[w.coverage(900, 100)])
    document = advise(evidence, deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert document.evidence.completeness_ratio == 0.9
    assert kinds(document) == [FindingKind.INCOMPLETE_EVENTS]
    assert "lost 100" in document.findings[0].evidence


def test_losses_on_the_hook_and_on_the_feed_multiply():
    """A record must survive both streams."""
    deployment = w.deployment(WORKING_SET)
    covered = [w.coverage(99, 1), w.coverage(98, 2, SourceKind.FEED)]
    document = advise(w.served(w.window(w.cycle(40, 1000)), deployment, covered=covered), deployment)

    assert document.evidence.completeness_ratio == pytest.approx(0.99 * 0.98)
    assert document.status is Status.NO_CHANGE


def test_without_any_report_of_completeness_there_is_no_advice():
    """Missing is absent, never full."""
    deployment = w.deployment(80 * CHUNK)
    document = advise(w.served(w.window(w.cycle(40, 1000)), deployment, covered=()), deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert document.evidence.completeness_ratio is None


def test_a_silent_replica_is_reported():
    """Three replicas configured, two heard of: a reading of two says two."""
    deployment = w.deployment(WORKING_SET, replicas=3)
    document = advise(w.served(w.window(w.cycle(40, 1000), replicas=2), deployment), deployment)

    assert "2 of 3 replicas" in document.findings[0].evidence


def test_unknown_bytes_a_token_are_named_as_missing():
    """Neither configured nor measured: no size can be given in bytes."""
    deployment = w.deployment(80 * CHUNK, bytes_per_token=None)
    document = advise(w.evidence(w.window(w.cycle(40, 1000))), deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert any("bytes a token takes in L1" in part.what for part in document.evidence.missing)


def test_bytes_a_token_are_measured_from_what_the_cache_holds():
    """Used bytes over used chunks of the server's own readings do as well as a configured value."""
    deployment = w.deployment(80 * CHUNK, bytes_per_token=None)
    reading = TierSample(
        Tier.L1,
        "server",
        w.START + 3000,
        capacity_bytes=80 * CHUNK,
        used_bytes=80 * CHUNK,
        used_blocks=80,
        block_tokens=w.CHUNK_TOKENS,
    )
    document = advise(w.served(w.window(w.cycle(40, 1000)), deployment, samples=[reading]), deployment)

    [change] = document.changes
    assert change.to == WORKING_SET
    assert document.current.tiers[Tier.L1].bytes_per_token == w.BYTES_PER_TOKEN


def test_a_cache_that_never_fills_its_memory_is_given_more_of_it():
    """A server that evicts at three quarters full needs four thirds of the working set."""
    deployment = w.deployment(80 * CHUNK)
    window = w.window(w.cycle(40, 1000))
    readings = [
        TierSample(Tier.L1, "server", at, capacity_bytes=80 * CHUNK, used_bytes=60 * CHUNK)
        for at in np.linspace(w.START + 1800, w.START + 3600, 10)
    ]
    document = advise(w.served(window, deployment, samples=readings), deployment)

    [change] = document.changes
    assert change.to == pytest.approx(WORKING_SET * 4 / 3, rel=1 / 32)


def test_a_server_that_never_had_to_evict_is_taken_by_its_defaults():
    """LMCache's server holds seven tenths on average once it evicts; too much memory shrinks to fit that."""
    deployment = w.deployment(10 * WORKING_SET)
    reading = TierSample(
        Tier.L1, "server", w.START + 3000, capacity_bytes=10 * WORKING_SET, used_bytes=WORKING_SET
    )
    document = advise(w.served(w.window(w.cycle(40, 1000)), deployment, samples=[reading]), deployment)

    [change] = document.changes
    assert change.to == pytest.approx(WORKING_SET / 0.7, rel=1 / 32)


def test_engines_that_hit_less_than_the_model_are_not_advised_on():
    """Half of the modelled hits seen: whatever is wrong, sizes would not repair it."""
    deployment = w.deployment(WORKING_SET)
    evidence = w.served(w.window(w.cycle(40, 1000)), deployment)
    l1 = evidence.window.l1 // 2
    seen = replace(evidence.window, l1=l1, computed=evidence.window.computed + evidence.window.l1 - l1)
    document = advise(replace(evidence, window=seen), deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert kinds(document) == [FindingKind.MODEL_DISAGREES]
    assert "modelled 99.6%, observed 49.8%" in document.findings[0].evidence


def test_a_smaller_disagreement_widens_the_intervals():
    """Nine points off: advice is given, and its interval says so."""
    deployment = w.deployment(100 * CHUNK)
    evidence = w.served(w.window(w.drawn(300, 4000, np.random.default_rng(1))), deployment)
    window = evidence.window
    less = (window.l1 * 0.8).astype(np.int64)
    seen = replace(window, l1=less, computed=window.computed + window.l1 - less)

    [sure], [unsure] = (advise(one, deployment).changes for one in (evidence, replace(evidence, window=seen)))
    width = [c.predicted.hit_ratio.total.high - c.predicted.hit_ratio.total.low for c in (sure, unsure)]
    assert width[1] - width[0] > 0.08


def test_a_modelled_l0_that_is_off_gives_way_to_what_was_seen():
    """L0 keeps its size: its recorded hits are the base for L1, and the disagreement is reported."""
    deployment = w.deployment(WORKING_SET, l0_bytes=1000 * CHUNK)
    as_if_small = w.deployment(WORKING_SET)
    document = advise(w.served(w.window(w.cycle(40, 1000)), as_if_small), deployment)

    assert document.status is Status.NO_CHANGE
    assert "l0: modelled" in document.findings[0].evidence


def test_the_same_evidence_gives_the_same_document():
    """Resampling is seeded: an operator that asks twice is told the same."""
    deployment = w.deployment(100 * CHUNK)
    evidence = w.served(w.window(w.drawn(300, 2000, np.random.default_rng(1))), deployment)

    assert advise(evidence, deployment).to_json() == advise(evidence, deployment).to_json()


def test_a_deployment_without_l1_and_l2_has_nothing_to_size():
    """What is missing is the configuration, not time."""
    deployment = w.deployment()
    document = advise(w.evidence(w.window(w.cycle(40, 1000))), deployment)

    assert document.status is Status.INSUFFICIENT_EVIDENCE
    assert "L1 or L2" in document.evidence.missing[0].what


def test_alternatives_rise_in_size_and_hit_ratio():
    """A person who wants to choose otherwise sees what more or less would take."""
    deployment = w.deployment(100 * CHUNK)
    evidence = w.served(w.window(w.drawn(300, 4000, np.random.default_rng(1))), deployment)
    document = advise(evidence, deployment)

    sizes = [choice.capacity_bytes[Tier.L1] for choice in document.alternatives]
    ratios = [choice.hit_ratio.value for choice in document.alternatives]
    assert sizes == sorted(sizes)
    assert ratios == sorted(ratios)
    assert document.changes[0].to in sizes
    assert all(choice.cost_per_hour is None for choice in document.alternatives)
