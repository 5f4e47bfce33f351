"""The observing scheduler, for engines where a connector is unwelcome.

`--scheduler-cls tierscope_probe.scheduler.observing_scheduler` names a factory, because only then can the
base follow the engine's setting: a fixed subclass of the plain scheduler would lose async scheduling. It has
no effect on the workers, but vLLM calls its scheduler interface not public. The records lack what only a
connector sees: lookups, waits for asynchronous loads, the split by tier.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tierscope_probe.probe import Probe, start_probe

if TYPE_CHECKING:
    from tierscope_probe.engine import EngineRequest

    class _Base:
        """The parts of vLLM's scheduler that are used, as the type checker should see them."""

        vllm_config: object
        kv_cache_config: object
        requests: Mapping[str, EngineRequest]

        def __init__(self, *args: object, **kwargs: object) -> None: ...
        def schedule(self, *args: object, **kwargs: object) -> object: ...
        def update_from_output(self, *args: object, **kwargs: object) -> object: ...
        def _free_request(self, request: EngineRequest, *args: object, **kwargs: object) -> object: ...
        def shutdown(self) -> object: ...

else:
    _Base = object

log = logging.getLogger(__name__)

_SCHED = "vllm.v1.core.sched"


class SchedulerMixin(_Base):
    """Goes before vLLM's scheduler in a class's bases and changes none of its decisions."""

    _probe: Probe | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._probe = start_probe("scheduler", self.vllm_config, self.kv_cache_config)

    def schedule(self, *args: object, **kwargs: object) -> object:
        """Plan a step; what it admits is recorded."""
        output = super().schedule(*args, **kwargs)
        if self._probe is not None:
            self._probe.observer.scheduled(output, self.requests)
        return output

    def update_from_output(self, *args: object, **kwargs: object) -> object:
        """Take in a step's tokens; first ones are recorded."""
        answer = super().update_from_output(*args, **kwargs)
        if self._probe is not None:
            self._probe.observer.stepped()
        return answer

    def _free_request(self, request: EngineRequest, *args: object, **kwargs: object) -> object:
        """End a request: the one place that all ends pass, aborts included."""
        answer = super()._free_request(request, *args, **kwargs)
        if self._probe is not None:
            self._probe.observer.finished(request)
        return answer

    def shutdown(self) -> object:
        """Send the last records, then shut down."""
        if self._probe is not None:
            self._probe.close()
        return super().shutdown()


def observing_scheduler(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  vLLM's own constructor arguments
    """Return vLLM's scheduler for this configuration, observed; plain where that is refused."""
    vllm_config = kwargs["vllm_config"] if "vllm_config" in kwargs else args[0]
    base = _base_for(vllm_config)
    refusal = _refusal(vllm_config, base)
    if refusal is not None:
        log.error("the probe does not observe this engine: %s", refusal)
        return base(*args, **kwargs)
    observed = type(f"Observing{base.__name__}", (SchedulerMixin, base), {"__module__": __name__})
    return observed(*args, **kwargs)


def _base_for(vllm_config: Any) -> Any:  # noqa: ANN401
    if getattr(vllm_config.scheduler_config, "async_scheduling", False):
        return import_module(f"{_SCHED}.async_scheduler").AsyncScheduler
    return import_module(f"{_SCHED}.scheduler").Scheduler


def _refusal(vllm_config: object, base: object) -> str | None:
    """Return why this engine cannot be observed truly; None where it can."""
    if not hasattr(base, "_free_request"):
        return "its scheduler has no _free_request, so ends of requests would be missed; use a connector"
    has_connector = getattr(vllm_config, "kv_transfer_config", None) is not None
    if has_connector and not hasattr(import_module("vllm.v1.metrics.stats"), "PrefillStats"):
        return (
            "before vLLM 0.20 its scheduler does not tell loaded tokens from local hits; wrap the connector"
        )
    return None
