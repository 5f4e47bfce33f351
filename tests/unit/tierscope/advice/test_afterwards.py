"""What became of advice, on histories whose outcome is written down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.afterwards import MOST_SECONDS, WARM_SECONDS, comparisons, observed_in
from tierscope.advice.compared import Observed
from tierscope.advice.document import Change, ChangeKind, Status, utc
from tierscope.advice.predictions import Estimate, HitRatios, Predicted
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import Deployment, DeploymentSince, RoutingPolicy
from tierscope.domain.units import GIB
from tierscope.domain.wiring import Wiring

HOUR = 3600.0
BEFORE = w.deployment(8 * GIB, 100 * GIB)
SEEN = Observed(500, 0.7, 0.3, 0.2, 0.2, 0.1, 0.2)


def change(kind: ChangeKind, target: str, to: float | str, low: float = 0.6) -> Change:
    there = Estimate(0.7, low, 0.8)
    predicted = Predicted(HitRatios(there, there, there, there), None, None, None)
    return Change(f"{kind.value}:{target}", kind, target, None, to, "", predicted, "", (), (), ())


L1 = change(ChangeKind.TIER_SIZE, "l1", 16.0 * GIB)
L2 = change(ChangeKind.TIER_SIZE, "l2", 50.0 * GIB)
EMPTY = recommend(w.evidence(w.window([])), BEFORE, now_unix_seconds=w.NOW)


def advised(at: float, *changes: Change):
    status = Status.RECOMMEND if changes else Status.NO_CHANGE
    return replace(EMPTY, status=status, generated_at=utc(w.START + at), changes=changes)


def since(at: float, deployment: Deployment) -> DeploymentSince:
    return DeploymentSince(w.START + at, deployment)


def nothing(before, after):
    """Nothing is foretold of what was not advised."""


def compare(advice, configurations, seen=SEEN, now=24 * HOUR, asked=None):
    asked = [] if asked is None else asked
    return comparisons(
        advice, configurations, lambda span: asked.append(span) or seen, w.START + now, nothing
    )


def test_a_change_that_was_made_as_advised_is_compared():
    """From an hour after it on, for six hours at most; the share lies within what was said."""
    asked = []
    [one] = compare(
        [advised(HOUR, L1)],
        [since(0, BEFORE), since(2 * HOUR, w.deployment(16 * GIB, 100 * GIB))],
        asked=asked,
    )

    assert (one.changes, one.kept, one.observed) == (("tier_size:l1",), True, SEEN)
    assert (one.advised_at, one.in_force_since) == (utc(w.START + HOUR), utc(w.START + 2 * HOUR))
    assert one.in_force_until is None
    start = w.START + 2 * HOUR + WARM_SECONDS
    assert [(span.start_unix_seconds, span.end_unix_seconds) for span in asked] == [
        (start, start + MOST_SECONDS)
    ]


@pytest.mark.parametrize(
    ("advice", "to"),
    [
        ([], w.deployment(16 * GIB, 100 * GIB)),
        ([advised(3 * HOUR, L1)], w.deployment(16 * GIB, 100 * GIB)),
        ([advised(HOUR, L1)], w.deployment(12 * GIB, 100 * GIB)),
        ([advised(HOUR, L1)], w.deployment(8 * GIB, 80 * GIB)),
        ([advised(HOUR, L1, L2)], w.deployment(8 * GIB, 50 * GIB)),
    ],
    ids=["no advice", "advised later", "another size", "another tier", "the second without the first"],
)
def test_what_was_not_advised_is_no_outcome(advice, to):
    """Sizes that nobody predicted anything of."""
    assert compare(advice, [since(0, BEFORE), since(2 * HOUR, to)]) == ()


def test_changes_made_together_have_the_prediction_of_the_last():
    """Predictions of a list rest on each other; a size may be off by what rounding takes."""
    [one] = compare(
        [advised(HOUR, L1, replace(L2, predicted=change(L2.kind, "l2", 1, low=0.75).predicted))],
        [since(0, BEFORE), since(2 * HOUR, w.deployment(16.2 * GIB, 50 * GIB))],
    )

    assert one.changes == ("tier_size:l1", "tier_size:l2")
    assert one.kept is False


def test_advice_to_change_nothing_does_not_hide_what_was_followed():
    """The newest advice with changes before the configuration counts."""
    found = compare(
        [advised(2.5 * HOUR), advised(HOUR, L1), advised(2 * HOUR, L1)],
        [since(3 * HOUR, w.deployment(16 * GIB, 100 * GIB)), since(0, BEFORE)],
    )

    assert [one.advised_at for one in found] == [utc(w.START + 2 * HOUR)]


@pytest.mark.parametrize(
    ("one", "changes"),
    [
        (change(ChangeKind.ROUTING, "routing", "session"), {"routing": RoutingPolicy.SESSION}),
        (change(ChangeKind.REPLICAS, "replicas", 3.0), {"replicas": 3}),
        (
            change(ChangeKind.CONFIG, "worker.args", "--gpu-memory-utilization=0.9 --kv-cache-dtype=fp8"),
            {"wiring": Wiring(gpu_memory_ratio=0.9, cache_dtype="fp8")},
        ),
    ],
)
def test_routing_replicas_and_arguments_are_followed_too(one, changes):
    """By what the configuration says of them."""
    after = replace(BEFORE, **changes)

    assert len(compare([advised(HOUR, one)], [since(0, BEFORE), since(2 * HOUR, after)])) == 1


@pytest.mark.parametrize(
    ("seen", "now", "words"),
    [
        (SEEN, 2.5 * HOUR, "30 minutes"),
        (None, 9 * HOUR, "0 requests"),
        (replace(SEEN, requests=7), 9 * HOUR, "7 "),
    ],
)
def test_too_early_or_too_little_is_absent_with_its_reason(seen, now, words):
    """Neither kept nor broken."""
    [one] = compare(
        [advised(HOUR, L1)], [since(0, BEFORE), since(2 * HOUR, w.deployment(16 * GIB, 100 * GIB))], seen, now
    )

    assert (one.observed, one.kept) == (None, None)
    assert words in one.absent_because


def test_a_window_is_summed_up():
    """Shares of its prompt tokens; L1 and L2 are unknown where a record does not tell them."""
    served = w.served(w.window(w.cycle(4, 40)), w.deployment(100 * w.CHUNK_BYTES)).window
    found = observed_in(served)
    loaded = replace(served, external=served.l1, l1=np.zeros_like(served.l1))

    assert found.hit_ratio == pytest.approx(found.l0 + found.l1 + found.l2)
    assert found.requests == 40
    assert found.ttft_p50_seconds is None
    assert (observed_in(loaded).l1, observed_in(loaded).l2) == (None, None)
    assert observed_in(w.window([])) is None
