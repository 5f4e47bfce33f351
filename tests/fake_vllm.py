"""A stand-in for the vLLM package, as far as the probe imports it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import SimpleNamespace

V1 = "vllm.distributed.kv_transfer.kv_connector.v1"


class KVConnectorBase(ABC):
    """vLLM's base class of connectors, with the calls it demands."""

    def __init__(self, vllm_config, role, kv_cache_config) -> None:
        self.role = role

    @property
    def requires_kv_delivery(self) -> bool:
        return True

    def shutdown(self) -> None:
        self.is_shut_down = True

    @abstractmethod
    def get_num_new_matched_tokens(self, request, num_computed_tokens): ...

    @abstractmethod
    def update_state_after_alloc(self, request, blocks, num_external_tokens): ...

    @abstractmethod
    def build_connector_meta(self, scheduler_output): ...

    @abstractmethod
    def start_load_kv(self, forward_context, **kwargs): ...

    @abstractmethod
    def wait_for_layer_load(self, layer_name): ...

    @abstractmethod
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs): ...

    @abstractmethod
    def wait_for_save(self): ...


class SupportsHMA(ABC):
    """vLLM's mark of connectors that know several cache groups."""

    @abstractmethod
    def request_finished_all_groups(self, request, block_ids): ...


class OffloadingConnector(KVConnectorBase, SupportsHMA):
    """A real connector: offers 64 tokens, knows their tier, keeps blocks."""

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return 64, True

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        return "planned"

    def build_connector_meta(self, scheduler_output):
        return "orders"

    def request_finished(self, request, block_ids):
        return True, {"kept": block_ids}

    def request_finished_all_groups(self, request, block_ids):
        return self.request_finished(request, block_ids)

    def get_external_cache_hit_sources(self, request, num_external_tokens):
        return {"host": num_external_tokens}

    def start_load_kv(self, forward_context, **kwargs): ...
    def wait_for_layer_load(self, layer_name): ...
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs): ...
    def wait_for_save(self): ...


class Scheduler:
    """A scheduler that plans what it is told to."""

    def __init__(self, vllm_config, kv_cache_config) -> None:
        self.vllm_config, self.kv_cache_config = vllm_config, kv_cache_config
        self.requests: dict[str, object] = {}
        self.plan = SimpleNamespace(scheduled_new_reqs=[], scheduled_cached_reqs=None)
        self.finished: list[object] = []

    def schedule(self):
        return self.plan

    def update_from_output(self, plan, output):
        return f"outputs of {output}"

    def _free_request(self, request, delay_free_blocks=False):
        self.finished.append(request)
        return "freed", delay_free_blocks

    def shutdown(self) -> None: ...


class AsyncScheduler(Scheduler):
    """The scheduler of engines that plan ahead."""


class StatLoggerBase(ABC):
    """vLLM's base class of stat loggers."""

    @abstractmethod
    def record(self, *args): ...

    @abstractmethod
    def log_engine_initialized(self): ...
