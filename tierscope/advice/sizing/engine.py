"""Ways to start the engine that give L0 another size: what its owner lets us choose from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tierscope.advice.sizing.cost import instance_of
from tierscope.advice.study import Study
from tierscope.domain.kv_size import cache_value_bytes
from tierscope.domain.tiers import Tier

MEMORY = "--gpu-memory-utilization"
DTYPE = "--kv-cache-dtype"
LENGTH = "--max-model-len"


@dataclass(frozen=True, slots=True)
class EngineStart:
    """One way to start the engine. `arguments` are those that differ from today's, with their values.

    `l0_blocks` is the size of one engine's L0, None as it is; `bytes_ratio` what a token takes of today's.
    """

    arguments: Mapping[str, str] = field(default_factory=dict)
    l0_blocks: int | None = None
    bytes_ratio: float = 1.0

    def of(self, study: Study) -> Study:
        """The same study on engines that start like this."""
        return study if self.l0_blocks is None else study.restarted(self.l0_blocks, self.bytes_ratio)


AS_IT_IS = EngineStart()


def starts(study: Study, *, l0_is_trusted: bool) -> Iterator[EngineStart]:
    """Yield today's way first, then every other that is allowed and whose L0 can be told."""
    yield AS_IT_IS
    reading = study.readings.get(Tier.L0)
    if not l0_is_trusted or reading is None or not reading.capacity_tokens or not reading.bytes_per_token:
        return
    options = study.deployment.objective.engine
    for memory in (None, *options.gpu_memory_ratios):
        for dtype in (None, *options.cache_dtypes):
            more, width = _more_bytes(study, memory), _width_ratio(study, dtype)
            changed = {
                **({MEMORY: f"{memory:g}"} if memory is not None and more else {}),
                **({DTYPE: dtype} if dtype is not None and width != 1.0 else {}),
            }
            if more is None or width is None or len(changed) < (memory is not None) + (dtype is not None):
                continue
            tokens = (reading.capacity_tokens + more / reading.bytes_per_token) / width
            start = _that_starts(study, changed, tokens, width)
            if changed and start is not None:
                yield start


def _more_bytes(study: Study, memory_ratio: float | None) -> float | None:
    """Bytes that L0 of one engine gains by another share of its GPUs' memory; None where that is not told.

    The engine's own share is not guessed where it is not told: its default is not the same in all releases.
    """
    if memory_ratio is None:
        return 0.0
    deployment = study.deployment
    figures, wiring = instance_of(deployment), deployment.wiring
    if figures is None or figures.gpu_memory_bytes is None or wiring is None or not wiring.gpu_memory_ratio:
        return None
    more = memory_ratio - wiring.gpu_memory_ratio
    return more * figures.gpu_memory_bytes * deployment.tensor_parallel


def _width_ratio(study: Study, dtype: str | None) -> float | None:
    """Bytes of a token in another type of cache, as a share of today's; None where that is not known."""
    if dtype is None:
        return 1.0
    wiring = study.deployment.wiring
    then, now = cache_value_bytes(dtype), cache_value_bytes(wiring.cache_dtype if wiring else None)
    return None if then is None or now is None else then / now


def _that_starts(
    study: Study, changed: Mapping[str, str], tokens: float, bytes_ratio: float
) -> EngineStart | None:
    """The start, with a lower --max-model-len where L0 would not hold it; None if that may not be."""
    block = study.window.block_tokens
    blocks = int(tokens // block)
    longest = study.deployment.wiring.max_model_len if study.deployment.wiring else None
    least = study.deployment.objective.engine.least_model_len
    if blocks * block < int(study.window.prompt.max(initial=1)):
        return None
    arguments = dict(changed)
    if longest is not None and blocks * block < longest:
        if least is None or least > blocks * block:
            return None
        arguments[LENGTH] = str(blocks * block)
    return EngineStart(arguments, blocks, bytes_ratio)
