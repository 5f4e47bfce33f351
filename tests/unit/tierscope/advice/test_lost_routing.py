"""The loss of a router's picks: in tokens, on requests whose best replica is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests import workloads as w
from tierscope.advice.document import RoutedHits
from tierscope.advice.routing.lost import lost_by_routing, routed_hits
from tierscope.advice.routing.model import RoutedFleet, fleet_of
from tierscope.advice.routing.sample import sample_of
from tierscope.analytics.routing_loss import RoutingLoss
from tierscope.domain.deployment import RoutingPolicy

PROMPT = w.chain_hashes(1, 50)
"""800 tokens."""
OTHERS = [w.chain_hashes(2 + i, 40) for i in range(40)]


def fleet(routing: RoutingPolicy, chains, engine, l0) -> RoutedFleet:
    """Two replicas without L1, each with room for 64 blocks in L0."""
    deployment = w.deployment(None, 1e12, l0_bytes=64 * w.BLOCK_TOKENS * w.BYTES_PER_TOKEN, replicas=2)
    deployment = replace(deployment, routing=routing)
    nothing = np.zeros(len(chains), np.int64)
    window = w.window(chains, replicas=2, engine=engine, hits=(np.array(l0), nothing, nothing))
    found = fleet_of(w.evidence(window), deployment, sample_of(window, 2))
    assert isinstance(found, RoutedFleet)
    return found


def last_only(found: RoutedFleet) -> RoutedFleet:
    """Count the last request alone."""

    class Last(type(found.sample)):
        __slots__ = ()

        @property
        def first_measured(self) -> int:
            return len(self.requests) - 1

    sample = found.sample
    return replace(found, sample=Last(sample.window, sample.requests, sample.trace, sample.placement))


def test_what_the_pick_and_what_the_belief_lost_add_up_to_the_best():
    """UD-14: the best replica had 800, 640 were foretold, 400 there: 160 the pick, 240 the belief."""
    chains = [PROMPT[:40], OTHERS[0][:24], PROMPT, PROMPT]
    # Replica 0 was sent 640 tokens and then what drove out all but 400; replica 1 has all of the prompt.
    found = last_only(fleet(RoutingPolicy.PREFIXAWARE, chains, [0, 0, 1, 0], [0, 0, 0, 400]))

    loss = lost_by_routing(found)
    assert loss == RoutingLoss(ceiling=800, delivered=400, routing=160, belief=240)
    assert routed_hits(found, loss) == RoutedHits(1, 800 / 801, 640 / 801, 400 / 801)


def test_a_router_that_foretells_nothing_loses_by_its_picks_alone():
    """`roundrobin` believes in nothing."""
    found = last_only(fleet(RoutingPolicy.ROUNDROBIN, [PROMPT, PROMPT], [0, 1], [0, 0]))

    loss = lost_by_routing(found)
    assert loss == RoutingLoss(ceiling=800, delivered=0, routing=800, belief=0)
    assert routed_hits(found, loss) == RoutedHits(1, 800 / 801, None, 0.0)


def test_nothing_is_told_where_records_do_not_tell_tiers_apart():
    """In-process LMCache says what it loaded, and not from where."""
    found = fleet(RoutingPolicy.ROUNDROBIN, [PROMPT, PROMPT], [0, 1], [0, 0])
    window = replace(found.sample.window, external=np.array([0, 16]))

    assert lost_by_routing(replace(found, sample=replace(found.sample, window=window))) is None
