"""Published comparisons of routers: who was served how, and what came of it.

Two benchmarks of llm-d-kv-cache (folders `73-capacity` and `37-capacity` of its results): prompts of a
group share its instructions, and stages of a rate follow each other when the one before has drained. What the
model takes from them is from the `precise` row of the lowest rate alone: `step_seconds`, by its time between
tokens, and `api_seconds`, by its TTFT. All else are figures of the hardware and of the set-up, or follows
from the source of what was run: inference-perf of September 2025, and the inference gateway's 0.5.1.

- Each stage asks the same prompts in the same order from the first on: they are shuffled once. Gaps are
  exponential, also where the rate is called constant: then they are scaled to fill the stage.
- An answer's line and the empty line after it count as one token each, so published times between tokens
  are half of the real ones: their median is 0.
- Envoy before the gateway bears 1,024 requests at once. Only the first benchmark sends more; its stages from
  40 requests/s on have the tokens of 1,024 answers, and no column of successes, which the second has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.trace import Trace
from tierscope.sim.fleet import TierSizes
from tierscope.sim.jobs import StepTimes
from tierscope.sim.routers.gateway import Index, Weights
from tierscope.sim.serving import Fleet, serve

BLOCK = 16
OUTPUT = 1000
DRAINED_MS = 900_000
"""Between two stages: longer than any of them takes to drain."""
PROXY_OPEN = 1024
"""What Envoy bears unless told otherwise (`max_requests`)."""
OF_2025 = Index(tokens=31_250 * BLOCK, prompt_tokens=256 * BLOCK)
"""64 bytes a block, about 16 tokens; what comes after 4,096 tokens of a prompt is not seen."""
ALL_TOLD = Index(precise=True, relative=True)


class Figures(NamedTuple):
    """Means of a stage, in seconds: to the first token, and between two tokens of an answer."""

    ttft: float
    token: float


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A fleet, its prompts, its stages (requests/s and seconds), and published mean TTFT by policy and rate.

    `tokens` are the published times between tokens under `precise`, as they stand there: half of the real.
    """

    replicas: int
    kv_tokens: int
    groups: int
    prompts_a_group: int
    system: int
    question: int
    poisson: bool
    warm_up: tuple[float, float]
    stages: tuple[tuple[float, float], ...]
    times: StepTimes
    weights: Mapping[str, tuple[Weights, Index]]
    published: Mapping[str, Mapping[float, float]]
    tokens: Mapping[float, float]

    def trace(self, seed: int) -> Trace:
        """Every stage's requests, prompts in shuffled rounds."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(self.groups * self.prompts_a_group)
        at, asked = [], []
        start = 0.0
        for rate, seconds in (self.warm_up, *self.stages):
            came = _poisson(rng, rate, seconds) if self.poisson else _in(seconds, round(rate * seconds), rng)
            at.append(start + came * 1000)
            asked.append(order[np.arange(len(came)) % len(order)])
            start += seconds * 1000 + DRAINED_MS
        came_ms, chosen = np.concatenate(at).astype(np.int64), np.concatenate(asked)
        n, paths = len(came_ms), self._paths()
        length = paths.shape[1]
        return Trace(
            name="published",
            block_tokens=BLOCK,
            at_ms=came_ms,
            input_tokens=np.full(n, self.system + self.question, np.int64),
            output_tokens=np.full(n, OUTPUT, np.int64),
            session=np.full(n, -1, np.int32),
            offsets=np.arange(n + 1, dtype=np.int64) * length,
            block_ids=paths[chosen].reshape(-1).astype(np.int32),
        )

    def _paths(self) -> np.ndarray:
        shared, own = self.system // BLOCK, self.question // BLOCK
        prompts = np.arange(self.groups * self.prompts_a_group)
        first = (prompts // self.prompts_a_group)[:, None] * shared + np.arange(shared)
        rest = self.groups * shared + prompts[:, None] * own + np.arange(own)
        return np.concatenate((first, rest), axis=1)

    def figures(self, policy: str, seed: int) -> dict[float, Figures]:
        """What comes of each stage in the model, by its rate, among the requests that are not refused."""
        trace = self.trace(seed)
        fleet = Fleet(
            replicas=self.replicas,
            sizes=TierSizes(l0_blocks=self.kv_tokens // BLOCK, l1_chunks=0, l2_chunks=0),
            policy=RoutingPolicy.GATEWAY,
            times=self.times,
            most_open=PROXY_OPEN,
            seed=seed,
        )
        if policy == "random":
            placement = np.random.default_rng(seed).integers(0, self.replicas, trace.requests)
            served = serve(trace, fleet, placement.astype(np.int32))
        else:
            weights, index = self.weights[policy]
            served = serve(trace, replace(fleet, weights=weights, index=index))
        stage = np.repeat(
            np.arange(len(self.stages) + 1), [round(r * s) for r, s in (self.warm_up, *self.stages)]
        )
        return {
            rate: Figures(
                float(np.nanmean(served.ttft_seconds[stage == number])),
                float(np.nanmean(served.answer_seconds[stage == number])) / (OUTPUT - 1),
            )
            for number, (rate, _) in enumerate(self.stages, start=1)
        }


def _in(seconds: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many requests in so many seconds: gaps are drawn as a Poisson process has them, then scaled."""
    gaps = rng.exponential(1.0, count)
    return np.cumsum(gaps) / gaps.sum() * seconds


def _poisson(rng: np.random.Generator, rate: float, seconds: float) -> np.ndarray:
    """As many requests as the rate says, second by second of a random number."""
    count = round(rate * seconds)
    came: list[float] = []
    second = 0
    while len(came) < count:
        came.extend(second + _in(1.0, rng.poisson(rate), rng))
        second += 1
    return np.array(came[:count])


def _by(stages: tuple[tuple[float, float], ...], means: tuple[float, ...]) -> dict[float, float]:
    return dict(zip((rate for rate, _ in stages), means, strict=True))


H100 = {"step_tokens": 8192, "most_running": 1024, "attention_seconds_per_pair": 0.0}
BYTES_PER_SECOND = 3.35e12
"""Memory of one H100."""

QWEN3_STAGES = (
    (3, 20), (10, 20), (15, 20), (20, 38), (22, 34), (25, 30), (30, 25), (35, 21), (40, 38),
    (43, 36), (46, 33), (49, 30), (52, 29), (55, 27), (57, 26), (60, 25),
)  # fmt: skip
QWEN3_32B = Benchmark(
    replicas=8,
    kv_tokens=307_328,
    groups=150,
    prompts_a_group=5,
    system=6000,
    question=1200,
    poisson=True,
    warm_up=(15, 50),
    stages=QWEN3_STAGES,
    times=StepTimes(
        step_seconds=0.0199,
        prefill_seconds_per_token=1 / 15_928,
        context_seconds_per_token=262_144 / (2 * BYTES_PER_SECOND),
        api_seconds=0.196,
        **H100,
    ),
    weights={
        "precise": (Weights(2, 2, 3), ALL_TOLD),
        "estimated": (Weights(1, 1, 1), OF_2025),
        "load": (Weights(1, 1, 0), OF_2025),
    },
    published={
        "precise": _by(QWEN3_STAGES, (
            0.291, 0.335, 0.249, 0.363, 0.300, 0.303, 0.296, 0.275,
            0.269, 0.281, 0.293, 0.311, 0.288, 0.308, 0.319, 0.283,
        )),
        "estimated": _by(QWEN3_STAGES, (
            0.300, 0.271, 0.232, 0.329, 0.407, 0.370, 0.373, 2.780,
            13.160, 16.941, 18.081, 19.111, 21.940, 22.327, 23.423, 24.281,
        )),
        "random": _by(QWEN3_STAGES, (
            0.622, 0.826, 1.278, 25.073, 28.185, 30.689, 32.212, 34.043,
            54.196, 53.247, 53.572, 56.130, 56.035, 54.844, 56.803, 57.426,
        )),
        "load": _by(QWEN3_STAGES, (
            0.944, 2.241, 4.013, 29.229, 28.710, 32.534, 32.831, 33.874,
            53.545, 53.802, 56.746, 55.208, 58.807, 58.467, 61.750, 58.497,
        )),
    },
    tokens=_by(QWEN3_STAGES, (
        0.011, 0.013, 0.015, 0.021, 0.020, 0.021, 0.021, 0.021,
        0.027, 0.028, 0.028, 0.029, 0.029, 0.029, 0.029, 0.029,
    )),
)  # fmt: skip
"""Two H100 a pod, 256 KiB of KV values a token; prefill 15,928 tokens/s (one unloaded chunk of 8,192)."""

LLAMA_STAGES = ((3, 210), (4, 180), (5, 120), (6, 120), (8, 90), (10, 70), (12, 60), (15, 50), (20, 50))
LLAMA_70B = Benchmark(
    replicas=4,
    kv_tokens=461_376,
    groups=83,
    prompts_a_group=3,
    system=8000,
    question=1000,
    poisson=False,
    warm_up=(9, 30),
    stages=LLAMA_STAGES,
    times=StepTimes(
        step_seconds=0.0214,
        prefill_seconds_per_token=2 * 70.6e9 / (4 * 0.5 * 989e12),
        context_seconds_per_token=327_680 / (4 * BYTES_PER_SECOND),
        api_seconds=0.105,
        **H100,
    ),
    weights={
        "precise": (Weights(1, 1, 2), ALL_TOLD),
        "default": (Weights(1, 1, 2), OF_2025),
        "load": (Weights(1, 1, 0), OF_2025),
    },
    published={
        "precise": _by(LLAMA_STAGES, (0.144, 0.182, 0.188, 0.195, 0.199, 0.202, 0.202, 0.210, 0.201)),
        "default": _by(LLAMA_STAGES, (0.207, 0.236, 0.307, 0.254, 0.399, 0.466, 0.420, 1.294, 7.609)),
        "random": _by(LLAMA_STAGES, (0.852, 9.475, 15.998, 30.389, 39.117, 41.480, 53.513, 61.425, 94.952)),
        "load": _by(LLAMA_STAGES, (1.443, 6.367, 10.158, 29.175, 39.076, 44.587, 51.247, 63.407, 92.947)),
    },
    tokens=_by(LLAMA_STAGES, (0.013, 0.014, 0.015, 0.016, 0.018, 0.020, 0.021, 0.024, 0.029)),
)
"""Four H100 a pod, 320 KiB of KV values a token; prefill at half of 989 TFLOP/s."""
