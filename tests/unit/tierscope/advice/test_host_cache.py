"""What L1's readings and the records say of how it behaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.document import FindingKind, Status
from tierscope.advice.readings import read_tiers
from tierscope.advice.recommend import recommend
from tierscope.advice.sizing.host_cache import filled_ratio, frees_in_rounds, staged_tokens
from tierscope.advice.study import study_of
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier

CHUNK = w.CHUNK_BYTES


def reading(at: float, used: float) -> TierSample:
    return TierSample(Tier.L1, "server", at, capacity_bytes=100.0, used_bytes=used)


def test_the_filled_share_is_a_mean_from_a_time_on():
    """Readings of a cache that still filled do not count, nor does a reading of another tier."""
    other = TierSample(Tier.L2, "pool", 9.0, capacity_bytes=100.0, used_bytes=1.0)

    assert filled_ratio([reading(1, 10), reading(5, 80), reading(6, 60), other], 5) == pytest.approx(0.7)
    assert filled_ratio([reading(1, 10)], 5) is None


@pytest.mark.parametrize(
    ("used", "rounds"),
    [
        pytest.param([80, 60, 70, 80, 62, 75], True, id="a quarter goes at the watermark"),
        pytest.param([78, 70, 79, 71], True, id="filled again in part before the next reading"),
        pytest.param([97, 99, 98, 97, 99, 96], False, id="chunk by chunk"),
        pytest.param([90, 80, 90, 91, 92], False, id="once"),
        pytest.param([80, 0, 40, 80, 0, 40], False, id="started anew"),
        pytest.param([70], False, id="one reading"),
        pytest.param([], False, id="none"),
    ],
)
def test_rounds_of_freeing_are_told_from_falls_of_the_fill(used, rounds):
    """Twice by a share of the memory, to no less than half of what was there."""
    assert frees_in_rounds([reading(at, bytes_) for at, bytes_ in enumerate(used)], 0) is rounds


def test_rounds_are_those_of_one_server_since_it_had_to_evict():
    """Two servers filled differently are no fall, in whatever order; nor is what came before."""
    two = [replace(reading(at, 90 - 20 * (at % 2)), holder=f"server-{at % 2}") for at in range(6)]
    saw = [reading(at, used) for at, used in enumerate([80, 60, 80, 60, 80])]

    assert not frees_in_rounds(two, 0)
    assert frees_in_rounds(saw[::-1], 0)
    assert not frees_in_rounds(saw, 2)


def test_loads_that_overlap_in_one_replica_need_room_together():
    """Two loads at once on one replica, one alone on the other: the first pair is the peak."""
    window = w.window(w.cycle(4, 3), replicas=2, engine=[0, 0, 1])
    loads = np.array([64, 128, 160])
    window = replace(
        window,
        at_unix_seconds=np.array([0.0, 0.5, 0.6]),
        load_seconds=np.array([1.0, 1.0, 1.0]),
        l2=loads,
        computed=window.prompt - loads,
    )

    assert staged_tokens(window, 0) == 192
    assert staged_tokens(window, 1) == 160


def test_loads_one_after_the_other_need_room_only_once():
    """A load that ended before the next begins has left its room; without a duration it is alone, too."""
    window = w.window(w.cycle(4, 2))
    window = replace(window, l1=np.array([64, 64]), at_unix_seconds=np.array([0.0, 1.0]))

    assert staged_tokens(replace(window, load_seconds=np.array([0.9, 0.9])), 0) == 64
    assert staged_tokens(window, 0) == 64


@pytest.fixture
def two_replicas():
    """Traffic in turn over two replicas with a pool, where keeping loads makes a large difference to L1."""
    return w.window(w.drawn(200, 3000, np.random.default_rng(3)), replicas=2)


@pytest.mark.parametrize("keeps", [True, False])
def test_whether_l1_keeps_its_loads_is_told_from_the_records(two_replicas, keeps):
    """Unconfigured, the model that serves what was seen is taken."""
    configured = w.deployment(300 * CHUNK, 2000 * CHUNK, replicas=2, l1_keeps_loads=keeps)
    evidence = w.served(two_replicas, configured)
    open_question = replace(configured, l1_keeps_loads=None)

    study = study_of(evidence, open_question, read_tiers(evidence, open_question), w.CHUNK_TOKENS)
    assert (study.l1_keeps_loads, study.l1_is_known) == (keeps, True)


def test_an_l1_that_may_behave_either_way_is_not_sized(two_replicas):
    """Too small today to tell, and it would matter at the advised size: the question is put to a person."""
    deployment = w.deployment(4 * CHUNK, replicas=2, l2_bytes=800 * CHUNK, l1_keeps_loads=None)
    document = recommend(w.served(two_replicas, deployment), deployment, now_unix_seconds=w.NOW)

    assert FindingKind.L1_DROPS_LOADS in [finding.kind for finding in document.findings]
    assert all(change.target != "l1" for change in document.changes)
    if document.status is Status.INSUFFICIENT_EVIDENCE:
        assert any("l1_keeps_loads" in part.what for part in document.evidence.missing)


def test_an_l1_that_drops_its_loads_is_not_grown(two_replicas):
    """Hits that only an L1 that keeps its loads would have are not promised."""
    deployment = w.deployment(100 * CHUNK, 2000 * CHUNK, replicas=2, l1_keeps_loads=False)
    document = recommend(w.served(two_replicas, deployment), deployment, now_unix_seconds=w.NOW)

    l1 = document.curves[Tier.L1]
    assert l1.hit_ratio[-1] < 0.6
    assert "--l2-prefetch-policy retain" in document.findings[0].fix


def test_tokens_of_an_unknown_tier_mean_in_process_lmcache(two_replicas):
    """It keeps its loads, and L1 and L2 are compared as one."""
    deployment = w.deployment(300 * CHUNK, 2000 * CHUNK, replicas=2, l1_keeps_loads=None)
    evidence = w.served(two_replicas, replace(deployment, l1_keeps_loads=True))
    window = evidence.window
    nothing = np.zeros_like(window.l1)
    unknown = replace(
        evidence, window=replace(window, l1=nothing, l2=nothing, external=window.l1 + window.l2)
    )
    document = recommend(unknown, deployment, now_unix_seconds=w.NOW)

    assert document.status is Status.RECOMMEND
    assert document.current.tiers[Tier.L1].hit_ratio is None
    assert FindingKind.MODEL_DISAGREES not in [finding.kind for finding in document.findings]
