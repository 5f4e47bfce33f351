"""What the probe reads of an engine: its requests and its configuration.

None of it is a stable interface of vLLM. What every supported release has is declared in `EngineRequest`;
everything else is read with `getattr`, so that its absence is an absent value and not an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class EngineRequest(Protocol):
    """The attributes of a scheduler's request that all releases from 0.11 on have."""

    request_id: str
    num_prompt_tokens: int
    arrival_time: float
    status: object

    @property
    def num_tokens(self) -> int:
        """Tokens of prompt and output."""

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far."""

    @property
    def block_hashes(self) -> Sequence[object]:
        """Chained hashes of the full blocks of prompt and output."""


@dataclass(frozen=True)
class EngineFacts:
    """What one engine (data-parallel rank) is. None, or 0 block tokens: it does not say."""

    rank: int
    model: str
    block_tokens: int
    num_blocks: int | None
    asynchronous: bool
    hybrid_manager_off: bool | None


def facts_of(vllm_config: object) -> EngineFacts:
    """Read an engine's configuration. Raises AttributeError where a release has no such part."""
    parallel = _part(vllm_config, "parallel_config")
    scheduler = _part(vllm_config, "scheduler_config")
    cache = _part(vllm_config, "cache_config")
    rank = getattr(parallel, "data_parallel_index", None)
    block_tokens = getattr(cache, "block_size", None)
    return EngineFacts(
        rank=int(getattr(parallel, "data_parallel_rank", 0) if rank is None else rank),
        model=_model_name(vllm_config),
        block_tokens=block_tokens if isinstance(block_tokens, int) else 0,
        num_blocks=getattr(cache, "num_gpu_blocks", None),
        asynchronous=bool(getattr(scheduler, "async_scheduling", False)),
        hybrid_manager_off=getattr(scheduler, "disable_hybrid_kv_cache_manager", None),
    )


def extra_config(vllm_config: object) -> Mapping[str, object]:
    """Return the connector's extra config; empty where there is none."""
    transfer = getattr(vllm_config, "kv_transfer_config", None)
    extra = getattr(transfer, "kv_connector_extra_config", None)
    return extra if isinstance(extra, Mapping) else {}


def hash_unit_tokens(vllm_config: object, kv_cache_config: object) -> tuple[int, ...]:
    """Return the sizes a hashed block may have, the likeliest first.

    Hybrid models hash in smaller steps than they allocate, and context parallelism in larger ones.
    """
    cache = getattr(vllm_config, "cache_config", None)
    parallel = getattr(vllm_config, "parallel_config", None)
    block_tokens = getattr(cache, "block_size", None)
    context_parallel = getattr(parallel, "decode_context_parallel_size", 1)
    units = [
        getattr(kv_cache_config, "hash_block_size", None),
        getattr(cache, "hash_block_size", None),
        getattr(cache, "prefix_match_unit", None),
        block_tokens,
        block_tokens * context_parallel if block_tokens and context_parallel else None,
    ]
    return tuple(dict.fromkeys(unit for unit in units if isinstance(unit, int) and unit > 0))


def _part(config: object, name: str) -> object:
    part: object = getattr(config, name)
    return part


def _model_name(vllm_config: object) -> str:
    model = getattr(vllm_config, "model_config", None)
    served = getattr(model, "served_model_name", None)
    if isinstance(served, (list, tuple)):
        served = served[0] if served else None
    return str(served or getattr(model, "model", ""))
