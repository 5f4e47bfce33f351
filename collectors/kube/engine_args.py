"""What vLLM's command line says of the size and place of its caches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tierscope.domain.command_line import options_of

WRAPPED = "Observing"
"""What the probe puts before the name of a connector that it wraps."""


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What vLLM is told that decides the size and place of its caches; None: not told.

    `connector` is what moves blocks, whether or not the probe is around it.
    """

    tensor_parallel: int
    pipeline_parallel: int
    served_name: str | None
    gpu_memory_ratio: float | None
    max_model_len: int | None
    cache_dtype: str | None
    connector: str | None

    @property
    def ranks(self) -> int:
        """GPUs that share one engine's model, each a worker process with a cache of its own."""
        return self.tensor_parallel * self.pipeline_parallel


def engine_arguments(words: Iterable[str]) -> EngineArguments:
    """What a vLLM command line says about its caches."""
    options = options_of(words)
    connector = options.document("kv-transfer-config").get("kv_connector")
    dtype = options.text("kv-cache-dtype")
    return EngineArguments(
        tensor_parallel=options.whole("tensor-parallel-size") or 1,
        pipeline_parallel=options.whole("pipeline-parallel-size") or 1,
        served_name=options.text("served-model-name"),
        gpu_memory_ratio=options.number("gpu-memory-utilization"),
        max_model_len=options.whole("max-model-len"),
        cache_dtype=None if dtype == "auto" else dtype,
        connector=connector.removeprefix(WRAPPED) if isinstance(connector, str) else None,
    )
