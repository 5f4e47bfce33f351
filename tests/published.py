"""Published comparisons of routers: who was served how, and what came of it.

Two benchmarks of llm-d-kv-cache (folders `73-capacity` and `37-capacity` of its results): prompts of a
group share its instructions, every prompt comes again and again, and stages of a rate follow each other when
the one before has drained. Figures are mean TTFT in seconds. What the model takes from them is `api_seconds`
alone, from the `precise` row of the lowest rate; all else are figures of the hardware and of the set-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
OF_2025 = Index(tokens=31_250 * BLOCK, prompt_tokens=256 * BLOCK)
"""64 bytes a block, about 16 tokens; what comes after 4,096 tokens of a prompt is not seen."""
ALL_TOLD = Index(precise=True)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A fleet, its prompts, its stages (requests/s and seconds), and the published means by policy and rate.

    `kv_seconds_per_token` is what reading a token's KV values of a decoding request takes.
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

    def trace(self, seed: int) -> Trace:
        """Every stage's requests, prompts in shuffled rounds."""
        rng = np.random.default_rng(seed)
        at: list[np.ndarray] = []
        start = 0.0
        for rate, seconds in (self.warm_up, *self.stages):
            count = round(rate * seconds)
            gaps = rng.exponential(1 / rate, count) if self.poisson else np.full(count, 1 / rate)
            at.append(start + np.cumsum(gaps) * 1000)
            start += seconds * 1000 + DRAINED_MS
        came = np.concatenate(at).astype(np.int64)
        n, prompts = len(came), self.groups * self.prompts_a_group
        rounds = [rng.permutation(prompts) for _ in range(-(-n // prompts))]
        paths = self._paths()
        chosen = np.concatenate(rounds)[:n]
        length = paths.shape[1]
        return Trace(
            name="published",
            block_tokens=BLOCK,
            at_ms=came,
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

    def means(self, policy: str, seed: int) -> dict[float, float]:
        """Mean TTFT of each stage in the model, by its rate; of stages at one rate the last one's."""
        trace = self.trace(seed)
        fleet = Fleet(
            replicas=self.replicas,
            sizes=TierSizes(l0_blocks=self.kv_tokens // BLOCK, l1_chunks=0, l2_chunks=0),
            policy=RoutingPolicy.GATEWAY,
            times=self.times,
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
            rate: float(np.nanmean(served.ttft_seconds[stage == number]))
            for number, (rate, _) in enumerate(self.stages, start=1)
        }


RATES = (3, 10, 15, 20, 25, 30, 35, 40, 60)


def _by(rates: tuple[float, ...], means: tuple[float, ...]) -> dict[float, float]:
    return dict(zip(rates, means, strict=True))


H100 = {"step_tokens": 8192, "most_running": 1024, "attention_seconds_per_pair": 0.0}
BYTES_PER_SECOND = 3.35e12
"""Memory of one H100."""

QWEN3_32B = Benchmark(
    replicas=8,
    kv_tokens=307_328,
    groups=150,
    prompts_a_group=5,
    system=6000,
    question=1200,
    poisson=True,
    warm_up=(15, 50),
    stages=(
        (3, 20), (10, 20), (15, 20), (20, 38), (22, 34), (25, 30), (30, 25), (35, 21), (40, 38),
        (43, 36), (46, 33), (49, 30), (52, 29), (55, 27), (57, 26), (60, 25),
    ),
    times=StepTimes(
        step_seconds=0.0105,
        prefill_seconds_per_token=1 / 15_928,
        context_seconds_per_token=262_144 / (2 * BYTES_PER_SECOND),
        api_seconds=0.2663,
        **H100,
    ),
    weights={
        "precise": (Weights(2, 2, 3), ALL_TOLD),
        "estimated": (Weights(1, 1, 1), OF_2025),
        "load": (Weights(1, 1, 0), OF_2025),
    },
    published={
        "precise": _by(RATES, (0.291, 0.335, 0.249, 0.363, 0.303, 0.296, 0.275, 0.269, 0.283)),
        "estimated": _by(RATES, (0.300, 0.271, 0.232, 0.329, 0.370, 0.373, 2.78, 13.2, 24.3)),
        "random": _by(RATES, (0.622, 0.826, 1.278, 25.1, 30.7, 32.2, 34.0, 54.2, 57.4)),
        "load": _by(RATES, (0.944, 2.24, 4.01, 29.2, 32.5, 32.8, 33.9, 53.5, 58.5)),
    },
)  # fmt: skip
"""Two H100 a pod, 256 KiB of KV values a token; prefill 15,928 tokens/s (one unloaded chunk of 8,192), and
10.5 ms a step, from the published time between tokens at the lowest rate."""

LLAMA_70B = Benchmark(
    replicas=4,
    kv_tokens=461_376,
    groups=83,
    prompts_a_group=3,
    system=8000,
    question=1000,
    poisson=False,
    warm_up=(9, 30),
    stages=((3, 210), (4, 180), (5, 120), (6, 120), (8, 90), (10, 70), (12, 60), (15, 50), (20, 50)),
    times=StepTimes(
        step_seconds=141e9 / (4 * BYTES_PER_SECOND),
        prefill_seconds_per_token=2 * 70.6e9 / (4 * 0.5 * 989e12),
        context_seconds_per_token=327_680 / (4 * BYTES_PER_SECOND),
        api_seconds=0.1245,
        **H100,
    ),
    weights={
        "precise": (Weights(1, 1, 2), ALL_TOLD),
        "default": (Weights(1, 1, 2), OF_2025),
        "load": (Weights(1, 1, 0), OF_2025),
    },
    published={
        "precise": _by((3, 4, 6, 8, 10, 15, 20), (0.144, 0.182, 0.195, 0.199, 0.202, 0.210, 0.201)),
        "default": _by((3, 4, 6, 8, 10, 15, 20), (0.207, 0.236, 0.254, 0.399, 0.466, 1.29, 7.61)),
        "random": _by((3, 4, 6, 8, 10), (0.852, 9.48, 30.4, 39.1, 41.5)),
        "load": _by((3, 4, 6, 8, 15, 20), (1.44, 6.37, 29.2, 39.1, 63.4, 92.9)),
    },
)
"""Four H100 a pod, 320 KiB of KV values a token; a step reads the weights; prefill at half of 989 TFLOP/s."""
