"""Faults of the wiring and of the pool, and modes that advice on sizes has to leave alone."""

from __future__ import annotations

from tests.scenarios.cases.abstentions import abstains
from tests.scenarios.cases.sizes import L1, L1_FIELD, SAME
from tests.scenarios.scenario import Expected, Move, Scenario
from tests.scenarios.traffic import conversations, cycle
from tierscope.advice.document import FindingKind, Status
from tierscope.domain.deployment import Objective, ObjectiveKind, RoutingPolicy
from tierscope.domain.wiring import GatewayWiring, PoolWiring, ScorerWeight, Wiring

POOL_URL = "fs://localhost:0/mnt/curvine/l2cache/"
COMPLETIONS = "v1/completions"
DELETES = PoolWiring("curvine", "curvine-worker", 2, ttl_action="delete", ttl_seconds=86400.0)
SLOW_L2 = (0.05, 1e-4, 2e-5, 4e-4)


def same_but(*findings: FindingKind) -> Expected:
    """Sizes stay; this has to be said."""
    return Expected(Status.NO_CHANGE, findings=frozenset(findings))


WIRED = (
    Scenario(
        "L2 never evicts: nothing there removes old chunks",
        same_but(FindingKind.L2_NEVER_EVICTS),
        traffic=cycle(41),
        l1=8,
        l2=164,
        limits=(8, None),
        replicas=2,
        deployed={
            "wiring": Wiring(l2_is_on=True, l2_url=POOL_URL, pool=PoolWiring("curvine", "curvine-worker", 2))
        },
    ),
    Scenario(
        "L2 never evicts: full of what nobody wants, and it serves nothing",
        abstains("difference of modelled and observed", FindingKind.L2_NEVER_EVICTS),
        traffic=cycle(41),
        l1=8,
        l2=170,
        limits=(8, None),
        replicas=2,
        kept={"l2": 0.2},
        readings=(1.0,) * 20,
    ),
    Scenario(
        "L2 never evicts: what L1 gave up would not be found there, so nothing is traded",
        abstains("a pool that makes room", FindingKind.L2_NEVER_EVICTS),
        traffic=conversations(48),
        l1=80,
        l2=200,
        replicas=2,
        kept={"l2": 0.7},
        readings=(1.0,) * 20,
        objective=Objective(ObjectiveKind.HIT_RATIO, 0.3),
    ),
    Scenario(
        "hash seeds differ: what L2 would serve cannot be told",
        Expected(
            Status.INSUFFICIENT_EVIDENCE,
            findings=frozenset({FindingKind.HASH_SEED_MISMATCH}),
            fields=("PYTHONHASHSEED",),
            missing="hash",
        ),
        l1=80,
        l2=400,
        limits=(80, None),
        replicas=2,
        seeds_differ=True,
        deployed={"wiring": Wiring(l2_is_on=True, l2_url=POOL_URL, pool=DELETES, hash_seeds=("0", "random"))},
    ),
    Scenario(
        "L2 is switched on and no pod has its address",
        same_but(FindingKind.L2_NOT_WIRED),
        l1=160,
        deployed={"wiring": Wiring(l2_is_on=True)},
    ),
    Scenario(
        "UD-51: L2 is slower than computing, so more of it is not advised",
        same_but(FindingKind.L2_SLOWER_THAN_RECOMPUTE),
        traffic=conversations(48),
        l1=20,
        l2=60,
        limits=(20, None),
        replicas=2,
        seconds=SLOW_L2,
    ),
    Scenario(
        "gateway mode: sizes as ever, and no strategy to choose",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 160}, fields=(L1_FIELD,)),
        l1=80,
        routing=RoutingPolicy.GATEWAY,
        deployed={
            "wiring": Wiring(gateway=GatewayWiring("ns", "gateway", 0, (ScorerWeight("prefix", 3.0),)))
        },
    ),
    Scenario(
        "routing absent: a load balancer alone",
        same_but(FindingKind.ROUTING_ABSENT),
        l1=80,
        replicas=2,
        routing=RoutingPolicy.NONE,
        deployed={"wiring": Wiring()},
    ),
    Scenario(
        "UD-59: kvaware on the chat path finds nothing",
        Expected(
            Status.NO_CHANGE,
            findings=frozenset({FindingKind.KVAWARE_BLIND}),
            fields=("/spec/intelligentRoutingSpec/routingStrategy", "prefixaware"),
        ),
        l1=160,
        routing=RoutingPolicy.KVAWARE,
        deployed={"wiring": Wiring(invocation_path="v1/chat/completions", routing_is_switched_on=True)},
    ),
    Scenario(
        "gateway and router are both switched on",
        same_but(FindingKind.ROUTING_CONFLICT),
        l1=160,
        routing=RoutingPolicy.GATEWAY,
        deployed={"wiring": Wiring(routing_is_switched_on=True)},
    ),
    Scenario(
        "L1 drops what it loads from L2, so half of it is of no use",
        Expected(
            Status.RECOMMEND,
            {L1: Move.DOWN},
            findings=frozenset({FindingKind.L1_DROPS_LOADS}),
            fields=(L1_FIELD,),
        ),
        traffic=cycle(41),
        l1=164,
        l2=164,
        replicas=2,
        l1_drops_loads=True,
        deployed={"l1_keeps_loads": False},
    ),
    Scenario(
        "the kvaware router that can see is left alone",
        SAME,
        l1=160,
        routing=RoutingPolicy.KVAWARE,
        deployed={"wiring": Wiring(invocation_path=COMPLETIONS, routing_is_switched_on=True)},
    ),
)
