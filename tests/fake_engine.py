"""What the probe sees of a vLLM engine, without vLLM: requests, configuration, connectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace


class Status(Enum):
    """States of a request, named as vLLM names them."""

    RUNNING = 1
    FINISHED_LENGTH_CAPPED = 2
    FINISHED_ABORTED = 3


class Role(Enum):
    """Where a connector lives."""

    SCHEDULER = 0
    WORKER = 1


@dataclass
class FakePrefillStats:
    """The engine's own count of a first admission."""

    num_prompt_tokens: int
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0


@dataclass
class FakeRequest:
    """A scheduler's request of a release from 0.20 on; `OldRequest` lacks what came later."""

    request_id: str
    num_prompt_tokens: int
    block_hashes: list[object] = field(default_factory=list)
    arrival_time: float = 100.0
    status: Status = Status.RUNNING
    num_output_tokens: int = 0
    num_preemptions: int = 0
    prefill_stats: FakePrefillStats | None = None
    skip_reading_prefix_cache: bool = False
    cache_salt: str | None = None
    session_id: str | None = None
    lora_request: object = None
    trace_headers: dict[str, str] | None = None

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.num_output_tokens


class OldRequest:
    """A scheduler's request of 0.11."""

    def __init__(self, request_id: str, num_prompt_tokens: int) -> None:
        self.request_id = request_id
        self.num_prompt_tokens = self.num_tokens = num_prompt_tokens
        self.block_hashes: list[object] = []
        self.arrival_time = 100.0
        self.status = Status.RUNNING
        self.num_output_tokens = 0


def chain(name: object, length: int) -> list[object]:
    """Full 32-byte hashes of a prompt's blocks; chains of one name share their prefixes."""
    return [f"{name}/{number}".encode().rjust(32, b".") for number in range(length)]


def request(request_id: str = "cmpl-a-0-12345678", *, blocks: int = 3, **fields: object) -> FakeRequest:
    """A request of some whole blocks of 32 tokens and 5 tokens more."""
    tokens = blocks * 32 + 5
    fields.setdefault("prefill_stats", FakePrefillStats(tokens))
    return FakeRequest(request_id, tokens, chain(request_id, blocks), **fields)


def vllm_config(*, rank: int = 0, extra: dict[str, object] | None = None, **cache: object) -> SimpleNamespace:
    """An engine's configuration, with those parts the probe reads."""
    return SimpleNamespace(
        model_config=SimpleNamespace(served_model_name=["tiny"], model="folder"),
        cache_config=SimpleNamespace(**{"block_size": 32, "num_gpu_blocks": 64, **cache}),
        scheduler_config=SimpleNamespace(async_scheduling=False, disable_hybrid_kv_cache_manager=False),
        parallel_config=SimpleNamespace(data_parallel_index=rank, data_parallel_rank=0),
        kv_transfer_config=SimpleNamespace(kv_connector_extra_config=extra or {}),
    )
