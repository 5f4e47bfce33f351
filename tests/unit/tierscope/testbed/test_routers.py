"""Every router decides the same for the same requests, and each as its name says."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tierscope.domain.deployment import RoutingPolicy
from tierscope.testbed.routers import ROUTERS
from tierscope.testbed.workload.request import Request

REPLICAS = 4


def request(session: int) -> Request:
    return Request(
        request_id=f"request-of-{session}",
        session=f"session-{session}",
        at_seconds=0.0,
        prompt_tokens=1,
        output_tokens=1,
        hashes=(),
        digests=(),
    )


def decide(policy: RoutingPolicy, sessions: list[int]) -> list[int]:
    router = ROUTERS[policy](REPLICAS)
    return [router.route(request(session)) for session in sessions]


@pytest.mark.parametrize("policy", ROUTERS)
def test_a_fresh_router_decides_the_same_again(policy):
    """Decisions depend on the requests alone, and reach every replica."""
    sessions = [number * number % 97 for number in range(400)]

    decisions = decide(policy, sessions)

    assert decisions == decide(policy, sessions)
    assert set(decisions) == set(range(REPLICAS))


def test_round_robin_takes_turns():
    """Replicas follow each other, whoever asks."""
    assert decide(RoutingPolicy.ROUNDROBIN, [5, 5, 5, 9, 5]) == [0, 1, 2, 3, 0]


def test_a_session_stays_where_it_is():
    """All requests of a session go to one replica, and sessions spread over all."""
    sessions = [number % 200 for number in range(1000)]
    seen = defaultdict(set)
    for session, replica in zip(sessions, decide(RoutingPolicy.SESSION, sessions), strict=True):
        seen[session].add(replica)

    assert all(len(replicas) == 1 for replicas in seen.values())
    spread = Counter(replica for replicas in seen.values() for replica in replicas)
    assert min(spread.values()) > 200 / REPLICAS / 2
