"""The observing half of a connector: calls the real one first, then tells the observer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tierscope_probe.probe import Probe, start_probe

if TYPE_CHECKING:
    from tierscope_probe.engine import EngineRequest

    class _Base:
        """The calls of vLLM's KVConnectorBase_V1 that are observed, as the type checker should see them."""

        def __init__(self, *args: object) -> None: ...
        def get_num_new_matched_tokens(
            self, request: EngineRequest, num_computed_tokens: int
        ) -> tuple[int | None, bool]: ...
        def update_state_after_alloc(
            self, request: EngineRequest, blocks: object, num_external_tokens: int
        ) -> object: ...
        def build_connector_meta(self, scheduler_output: object) -> object: ...
        def request_finished(self, request: EngineRequest, block_ids: object) -> object: ...
        def request_finished_all_groups(self, request: EngineRequest, block_ids: object) -> object: ...
        def shutdown(self) -> object: ...

else:
    _Base = object


class ObserverMixin(_Base):
    """Goes before a real connector in a class's bases and changes nothing of what that one answers.

    Only the scheduler's connector observes; those in the workers have no probe and open no socket.
    """

    form = "alone"
    _probe: Probe | None = None
    _finishing = False

    def __init__(self, vllm_config: object, role: object, kv_cache_config: object = None) -> None:
        if takes_cache_config(super().__init__):
            super().__init__(vllm_config, role, kv_cache_config)
        else:
            super().__init__(vllm_config, role)
        if getattr(role, "name", None) == "SCHEDULER":
            self._probe = start_probe(self.form, vllm_config, kv_cache_config)

    def get_num_new_matched_tokens(
        self, request: EngineRequest, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Look up through the real connector."""
        if self._probe is None:
            return super().get_num_new_matched_tokens(request, num_computed_tokens)
        observer = self._probe.observer
        asked_at = observer.clock()
        answer = super().get_num_new_matched_tokens(request, num_computed_tokens)
        observer.looked_up(request, num_computed_tokens, answer, asked_at)
        return answer

    def update_state_after_alloc(
        self, request: EngineRequest, blocks: object, num_external_tokens: int
    ) -> object:
        """Let the real connector plan its load; this is the admission."""
        answer = super().update_state_after_alloc(request, blocks, num_external_tokens)
        if self._probe is not None:
            split = getattr(self, "get_external_cache_hit_sources", None)  # from 0.32 on
            self._probe.observer.allocated(request, num_external_tokens, split)
        return answer

    def build_connector_meta(self, scheduler_output: object) -> object:
        """Let the real connector build its orders for the workers; this is a scheduler step."""
        answer = super().build_connector_meta(scheduler_output)
        if self._probe is not None:
            self._probe.observer.stepped()
        return answer

    def request_finished(self, request: EngineRequest, block_ids: object) -> object:
        """Let the real connector end the request; engines without several cache groups call this one."""
        answer = super().request_finished(request, block_ids)
        if self._probe is not None and not self._finishing:
            self._probe.observer.finished(request)
        return answer

    def request_finished_all_groups(self, request: EngineRequest, block_ids: object) -> object:
        """Let the real connector end the request; some do so by calling `request_finished`."""
        self._finishing = True
        try:
            answer = super().request_finished_all_groups(request, block_ids)
        finally:
            self._finishing = False
        if self._probe is not None:
            self._probe.observer.finished(request)
        return answer

    def shutdown(self) -> object:
        """Send the last records, then shut the real connector down."""
        if self._probe is not None:
            self._probe.close()
        return super().shutdown()


def takes_cache_config(constructor: Any) -> bool:  # noqa: ANN401  any callable
    """Whether a connector's constructor has the third argument, which came between 0.11 and 0.22."""
    parameters = inspect.signature(constructor).parameters.values()
    return any(
        parameter.name == "kv_cache_config" or parameter.kind is parameter.VAR_POSITIONAL
        for parameter in parameters
    )
