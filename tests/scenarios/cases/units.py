"""The same traffic where tokens weigh differently, and on several ranks: sizes in the right unit."""

from __future__ import annotations

from tests.scenarios.cases.sizes import L1, L1_FIELD
from tests.scenarios.scenario import Expected, Move, Scenario
from tierscope.advice.document import FindingKind, Status
from tierscope.domain.kv_size import ModelShape, kv_size
from tierscope.domain.units import GIB
from tierscope.domain.wiring import CacheScope, Wiring

LLAMA_8B = ModelShape(layers=32, kv_heads=8, head_values=128, value_bytes=2.0)
DEEPSEEK_V3 = ModelShape(layers=61, kv_heads=128, head_values=128, value_bytes=2.0, latent_values=576)

UNITS = (
    Scenario(
        "grouped heads: 128 KiB a token",
        # 160 chunks of 64 tokens: 1.25 GiB, a quarter of it for each of four ranks.
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 160}, fields=(L1_FIELD, '"0.3125"')),
        l1=80,
        bytes_per_token=131072.0,
        deployed={
            "bytes_per_token": None,
            "model_bytes_per_token": kv_size(LLAMA_8B, None, 4).stored,
            "tensor_parallel": 4,
        },
    ),
    Scenario(
        "fp8 values: half of that",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 160}, fields=(L1_FIELD, '"0.15625"')),
        l1=80,
        bytes_per_token=65536.0,
        deployed={
            "bytes_per_token": None,
            "model_bytes_per_token": kv_size(LLAMA_8B, "fp8", 4).stored,
            "tensor_parallel": 4,
        },
    ),
    Scenario(
        "latent cache: 70,272 bytes a token, held once by L1 whatever the ranks",
        Expected(Status.RECOMMEND, {L1: Move.DOWN}, {"l1": 160}, fields=(L1_FIELD,)),
        l1=1600,
        bytes_per_token=70272.0,
        deployed={
            "bytes_per_token": None,
            "model_bytes_per_token": kv_size(DEEPSEEK_V3, None, 8).stored,
            "tensor_parallel": 8,
        },
    ),
    Scenario(
        "one server a node takes the size on its command line",
        Expected(Status.RECOMMEND, {L1: Move.UP}, {"l1": 160}, fields=("--l1-size-gb",)),
        l1=80,
        deployed={"wiring": Wiring(l1_scope=CacheScope.NODE)},
    ),
    Scenario(
        "UD-43: 640 GiB for each of eight ranks do not fit beside the rest",
        Expected(
            Status.RECOMMEND,
            {L1: Move.DOWN},
            {"l1": 160},
            findings=frozenset({FindingKind.L1_OVERCOMMITTED}),
            fields=(L1_FIELD, "requests/memory"),
        ),
        l1=640,
        # A chunk of eight GiB: 640 chunks are 5,120 GiB, and the node has 5,254 of which 133 are taken.
        bytes_per_token=8 * GIB / 64,
        limits=(600, None),
        deployed={
            "tensor_parallel": 8,
            "worker_memory_bytes": 5253.0 * GIB,
            "wiring": Wiring(
                environment=(L1_FIELD,),
                resource_parts=("requests", "limits"),
                node_memory_bytes=5254.0 * GIB,
                other_memory_bytes=133.0 * GIB,
            ),
        },
    ),
)
