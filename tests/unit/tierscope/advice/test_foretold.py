"""Changes that nobody advised are foretold from the requests before them, and compared like advice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests import workloads as w
from tests.unit.tierscope.advice.test_afterwards import HOUR, since
from tierscope.advice.afterwards import outcomes_of
from tierscope.advice.foretold import HISTORY_SECONDS, MOST_FORETOLD, Foretold, resized
from tierscope.advice.learned import learned_from
from tierscope.advice.what_if import what_if
from tierscope.domain.deployment import Deployment, DeploymentSince, RoutingPolicy
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence, RequestWindow, TimeSpan

WHO = ("ns", "chat")
SMALL = w.deployment(16 * w.CHUNK_BYTES, 400 * w.CHUNK_BYTES)
LARGE = w.deployment(64 * w.CHUNK_BYTES, 400 * w.CHUNK_BYTES)
ALL_TIME = TimeSpan(w.START, w.NOW)


def asked(seed: int) -> RequestWindow:
    return w.window(w.drawn(60, 3000, np.random.default_rng(seed)))


@dataclass
class Records:
    """One endpoint that served the same kind of traffic under one configuration after the other."""

    configurations: tuple[DeploymentSince, ...]
    spans: list[TimeSpan] = field(default_factory=list)

    def recommendation_history(self, *_: object) -> tuple[bytes, ...]:
        return ()

    def deployments(self, *_: object) -> tuple[DeploymentSince, ...]:
        return self.configurations

    def window(self, namespace: str, endpoint: str, span: TimeSpan) -> RequestWindow:
        return self.evidence(namespace, endpoint, span).window

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        assert (namespace, endpoint) == WHO
        self.spans.append(span)
        start = span.start_unix_seconds
        at = sum(one.since_unix_seconds <= start for one in self.configurations) - 1
        return w.served(asked(at), self.configurations[at].deployment)


def test_a_size_that_somebody_set_is_compared_with_what_it_was_to_bring():
    """By what was asked in the six hours before it; its distance counts for the next intervals."""
    before, after = w.deployment(16 * w.CHUNK_BYTES), w.deployment(64 * w.CHUNK_BYTES)
    records = Records((since(0, before), since(9 * HOUR, after)))
    [one] = outcomes_of(records, WHO, ALL_TIME, w.NOW, Foretold())
    foretold = what_if(w.served(asked(0), before), before, {Tier.L1: 64 * w.CHUNK_BYTES})

    assert (one.advised_at, one.changes, one.kept) == (None, ("tier_size:l1",), True)
    assert one.predicted == foretold.predicted
    assert foretold.today.hit_ratio.l1.value + 0.1 < one.predicted.hit_ratio.l1.value, "it changes something"
    assert one.predicted.hit_ratio.total.low <= one.observed.hit_ratio <= one.predicted.hit_ratio.total.high
    change = w.START + 9 * HOUR
    assert records.spans[0] == TimeSpan(change - HISTORY_SECONDS, change)
    assert learned_from([one]).compared == 1


@pytest.mark.parametrize(
    ("other", "sizes"),
    [
        (w.deployment(64 * w.CHUNK_BYTES, 100 * w.CHUNK_BYTES), {Tier.L1: 64.0, Tier.L2: 100.0}),
        (w.deployment(16 * w.CHUNK_BYTES), {Tier.L2: 0.0}),
        (w.deployment(16.2 * w.CHUNK_BYTES, 400 * w.CHUNK_BYTES), {}),
        (replace(LARGE, replicas=2), {}),
        (replace(LARGE, routing=RoutingPolicy.SESSION), {}),
        (w.deployment(64 * w.CHUNK_BYTES, 400 * w.CHUNK_BYTES, l0_bytes=w.CHUNK_BYTES * 9), {}),
    ],
    ids=["two sizes", "a tier that is gone", "rounded", "replicas too", "routing too", "L0 too"],
)
def test_what_differs_by_sizes_alone_can_be_foretold(other: Deployment, sizes: dict[Tier, float]):
    """A difference of anything else is not that of the sizes."""
    assert resized(SMALL, other) == {tier: size * w.CHUNK_BYTES for tier, size in sizes.items()}


def test_the_newest_changes_are_foretold_and_no_more():
    """Each takes as long as a what-if, and an endpoint may be resized by a machine."""
    changes = tuple(since(n * HOUR, (SMALL, LARGE)[n % 2]) for n in range(MOST_FORETOLD + 4))
    records, foretold = Records(changes), Foretold()
    found = outcomes_of(records, WHO, ALL_TIME, w.NOW, foretold)
    asked = len(records.spans)

    assert len(found) == MOST_FORETOLD
    assert outcomes_of(records, WHO, ALL_TIME, w.NOW, foretold) == found
    assert len(records.spans) == 2 * asked - MOST_FORETOLD, "what was foretold once is not asked for again"
    assert found[0].in_force_since.timestamp() == changes[-1].since_unix_seconds


def test_too_little_evidence_foretells_nothing():
    """A change in the first minutes of an endpoint."""
    records = Records((since(0, SMALL), since(HOUR, LARGE)))
    records.evidence = lambda *_: w.evidence(w.window(w.cycle(3, 5)))  # type: ignore[method-assign]

    assert Foretold().of(records, WHO)(*records.configurations) is None
