"""Tiers that are too large, too small, or right."""

from __future__ import annotations

from tests.scenarios.scenario import Expected, Move, Scenario
from tests.scenarios.traffic import conversations, cycle, popular, shared_prefix, unrelated
from tierscope.advice.document import FindingKind, Status
from tierscope.domain.deployment import Objective, RoutingPolicy

L1 = "tier_size:l1"
L2 = "tier_size:l2"
L1_FIELD = "LMCACHE_MAX_LOCAL_CPU_SIZE"
L2_FIELD = "dataDirs"
SAME = Expected(Status.NO_CHANGE)

SIZES = (
    Scenario(
        "over-provisioned L1: ten working sets",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 160}, fields=(L1_FIELD,)),
        l1=1600,
    ),
    Scenario(
        "under-provisioned L1: half a working set",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 160}, fields=(L1_FIELD,)),
        l1=80,
    ),
    Scenario("nothing to gain: the working set fits", SAME, l1=160),
    Scenario("nothing to gain: five percent too much is not worth a restart", SAME, l1=168),
    Scenario(
        "under-provisioned L1: popular documents",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 139}, fields=(L1_FIELD,)),
        traffic=popular(40, seen=2000),
        seen=2000,
        l1=50,
    ),
    Scenario(
        "over-provisioned L1: popular documents",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 185}, fields=(L1_FIELD,)),
        traffic=popular(60, 1.2, seen=2000),
        seen=2000,
        l1=2000,
    ),
    Scenario(
        "each of two replicas needs its own half",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 80}, fields=(L1_FIELD,)),
        l1=20,
        replicas=2,
    ),
    Scenario(
        "a lower aim takes less",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 84}, fields=(L1_FIELD,)),
        traffic=popular(40, seen=2000),
        seen=2000,
        l1=160,
        objective=Objective(target=0.8),
    ),
    Scenario(
        "session traffic kept together",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 102}, fields=(L1_FIELD,)),
        traffic=conversations(32, seen=2000),
        seen=2000,
        l1=60,
        replicas=2,
        routing=RoutingPolicy.SESSION,
    ),
    Scenario(
        "hot prefix: all but what every prompt begins with is new",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 9}, fields=(L1_FIELD,)),
        traffic=shared_prefix(0.8),
        l1=1000,
    ),
    Scenario(
        "nothing is ever asked for again",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 4}, fields=(L1_FIELD,)),
        traffic=unrelated(),
        l1=1000,
    ),
    Scenario(
        "the node has no room for the target",
        Expected(
            Status.RECOMMEND,
            {L1: Move.UP},
            findings=frozenset({FindingKind.LIMIT_BELOW_TARGET}),
            fields=(L1_FIELD,),
        ),
        traffic=popular(40),
        l1=60,
        limits=(100, None),
    ),
    Scenario(
        "under-provisioned L2: what two replicas share does not fit",
        Expected(Status.RECOMMEND, {L2: Move.UP}, {"l2": 164}, fields=(L2_FIELD,)),
        traffic=cycle(41),
        l1=8,
        l2=80,
        limits=(8, None),
        replicas=2,
    ),
    Scenario(
        "over-provisioned L2: a sixth of it is ever used",
        Expected(Status.RECOMMEND, {L2: Move.DOWN}, {"l2": 164}, fields=(L2_FIELD,)),
        traffic=cycle(41),
        l1=8,
        l2=1000,
        limits=(8, None),
        replicas=2,
    ),
    Scenario(
        "L1 too small above an L2 too large",
        Expected(
            Status.RECOMMEND, {L1: Move.UP, L2: Move.DOWN}, {"l1": 137, "l2": 4}, fields=(L1_FIELD, L2_FIELD)
        ),
        traffic=popular(40, seen=2000),
        seen=2000,
        l1=60,
        l2=5000,
        replicas=2,
    ),
    Scenario(
        "a pool of old chunks is not shrunk below what it holds",
        Expected(Status.RECOMMEND, {L2: Move.DOWN}, fields=(L2_FIELD,)),
        traffic=cycle(41),
        l1=8,
        l2=1000,
        limits=(8, None),
        replicas=2,
        readings=(0.5,) * 10,
    ),
)
