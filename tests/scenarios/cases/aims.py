"""What owners ask for besides a share of the hit ratio: a TTFT, a budget, a hit ratio; L0 among the means."""

from __future__ import annotations

from dataclasses import replace

from tests import workloads as w
from tests.scenarios.cases.abstentions import abstains
from tests.scenarios.cases.sizes import L1, L1_FIELD, L2, L2_FIELD
from tests.scenarios.scenario import Expected, Move, Scenario
from tests.scenarios.traffic import conversations, cycle, popular
from tierscope.advice.document import FindingKind, Status
from tierscope.domain.deployment import EngineOptions, Objective, ObjectiveKind, TtftQuantile
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.wiring import Wiring

ENGINE = "config:engine"
CENTS = (0.01, 0.001)
"""An hour of a chunk: of host memory ten times that of the pool."""
FAST_TIERS = (0.05, 1e-3, 5e-5, 1e-4)
DEAR_POOL = (0.05, 1e-3, 5e-5, 3e-4)
STAGED = (35, 8)
"""Five times what the longest prompt loads, and a pool that holds the longest prompt."""
L0_BLOCK = w.BLOCK_TOKENS * w.BYTES_PER_TOKEN
GPU = InstanceFigures("ml.example", 1.0, gpu_memory_bytes=20 * 640 * L0_BLOCK)
"""Five percent of its memory are 640 blocks: the forty documents."""
ON_GPU = Wiring(
    engine_args=("--model", "/opt/ml/model", "--gpu-memory-utilization", "0.85"),
    gpu_memory_ratio=0.85,
    instance_types=("ml.example",),
)


def aims_at(kind: ObjectiveKind, target: float, **more: object) -> Objective:
    return Objective(kind, target, TtftQuantile.P50, **more)  # type: ignore[arg-type]


TALKS = Scenario(
    "conversations on two replicas",
    Expected(Status.NO_CHANGE),
    traffic=conversations(48, seen=1500),
    seen=1500,
    l1=80,
    l2=400,
    replicas=2,
    prices=CENTS,
    least=STAGED,
    seconds=FAST_TIERS,
)
BOTH_DOWN = {L1: Move.DOWN, L2: Move.DOWN}

AIMS = (
    replace(
        TALKS,
        name="lowest cost within a TTFT: both tiers are larger than that takes",
        expected=Expected(Status.RECOMMEND, BOTH_DOWN, {"l1": 35, "l2": 140}, fields=(L1_FIELD, L2_FIELD)),
        objective=aims_at(ObjectiveKind.LOWEST_COST, 0.15),
    ),
    replace(
        TALKS,
        name="lowest cost within a TTFT that only more cache gives",
        expected=Expected(Status.RECOMMEND, {L2: Move.UP}, {"l1": 35, "l2": 224}, fields=(L2_FIELD,)),
        objective=aims_at(ObjectiveKind.LOWEST_COST, 0.14),
        l1=36,
        l2=60,
    ),
    replace(
        TALKS,
        name="lowest TTFT within a budget: it pays for more L1",
        expected=Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 131, "l2": 320}, fields=(L1_FIELD,)),
        objective=aims_at(ObjectiveKind.LOWEST_TTFT, 5.0),
        seconds=DEAR_POOL,
    ),
    replace(
        TALKS,
        name="lowest TTFT within a budget that today's sizes exceed",
        expected=Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 35, "l2": 236}, fields=(L1_FIELD,)),
        objective=aims_at(ObjectiveKind.LOWEST_TTFT, 1.5),
    ),
    Scenario(
        "a hit ratio as cheaply as it can be had",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 92}, fields=(L1_FIELD,)),
        traffic=popular(40, seen=2000),
        seen=2000,
        l1=160,
        prices=CENTS,
        least=(20, 1),
        objective=aims_at(ObjectiveKind.HIT_RATIO, 0.8),
    ),
    replace(
        TALKS,
        name="a TTFT that no size gives",
        expected=Expected(Status.NO_CHANGE, findings=frozenset({FindingKind.OBJECTIVE_OUT_OF_REACH})),
        objective=aims_at(ObjectiveKind.LOWEST_COST, 0.01),
    ),
    replace(
        TALKS,
        name="a budget without prices",
        expected=abstains("a price"),
        objective=aims_at(ObjectiveKind.LOWEST_TTFT, 5.0),
        prices=None,
    ),
    replace(
        TALKS,
        name="a TTFT without times",
        expected=abstains("a model of TTFT"),
        objective=aims_at(ObjectiveKind.LOWEST_COST, 0.15),
        seconds=None,
    ),
    Scenario(
        "L0 has room for what L1 is paid for",
        Expected(
            Status.RECOMMEND,
            {ENGINE: Move.SET, L1: Move.DOWN},
            {"l0": 704, "l1": 20},
            fields=("/spec/worker/args", '"0.9"', L1_FIELD),
        ),
        l0=64,
        l1=160,
        prices=CENTS,
        least=(20, 1),
        objective=aims_at(
            ObjectiveKind.HIT_RATIO,
            0.95,
            prices=Prices(instances=(GPU,)),
            engine=EngineOptions(gpu_memory_ratios=(0.8, 0.9)),
        ),
        deployed={"wiring": ON_GPU},
    ),
    Scenario(
        "what the engine may be given is not enough, and L1 grows",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 164}, fields=(L1_FIELD,)),
        traffic=cycle(40),
        l0=64,
        l1=100,
        prices=CENTS,
        least=(20, 1),
        objective=aims_at(
            ObjectiveKind.HIT_RATIO,
            0.95,
            prices=Prices(instances=(replace(GPU, gpu_memory_bytes=640 * L0_BLOCK),)),
            engine=EngineOptions(gpu_memory_ratios=(0.8, 0.9)),
        ),
        deployed={"wiring": ON_GPU},
    ),
    Scenario(
        "fp8 values halve what L1 has to hold",
        Expected(
            Status.RECOMMEND,
            {ENGINE: Move.SET, L1: Move.DOWN},
            {"l0": 128, "l1": 164},
            fields=("--kv-cache-dtype=fp8", L1_FIELD),
            bytes_ratio=0.5,
        ),
        l0=64,
        l1=160,
        prices=CENTS,
        least=(20, 1),
        objective=aims_at(ObjectiveKind.HIT_RATIO, 0.95, engine=EngineOptions(cache_dtypes=("fp8",))),
        deployed={"wiring": ON_GPU},
    ),
)
