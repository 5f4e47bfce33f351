"""The connectors to name in `--kv-transfer-config`, with this module as `kv_connector_module_path`.

ObservingConnector             for an engine that has no connector; moves nothing; use kv_role kv_producer
ObservingOffloadingConnector   around vLLM's OffloadingConnector
ObservingLMCacheMPConnector    around LMCache's connector to its multiprocess server
ObservingLMCacheConnectorV1    around LMCache inside the engine

A wrapped connector is made when it is first asked for, so none needs another's packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tierscope_probe.engine import EngineRequest
from tierscope_probe.mixin import ObserverMixin

try:
    from vllm.distributed.kv_transfer.kv_connector.v1 import base
except ImportError as error:
    raise ImportError(
        "tierscope-probe needs vLLM 0.11.2 or newer: this one has no KV connector interface V1; "
        "remove --kv-transfer-config or upgrade the engine"
    ) from error

if not hasattr(base, "SupportsHMA"):
    raise ImportError(
        "tierscope-probe needs vLLM 0.11.2 or newer: in older releases a connector would switch the hybrid "
        "cache manager off; remove --kv-transfer-config or upgrade the engine"
    )

_V1 = "vllm.distributed.kv_transfer.kv_connector.v1"

WRAPPED: dict[str, tuple[str, tuple[str, ...], str]] = {
    "ObservingOffloadingConnector": ("offloading", (f"{_V1}.offloading_connector",), "OffloadingConnector"),
    "ObservingLMCacheMPConnector": (
        "lmcache_mp",
        ("lmcache.integration.vllm.lmcache_mp_connector", f"{_V1}.lmcache_mp_connector"),
        "LMCacheMPConnector",
    ),
    "ObservingLMCacheConnectorV1": ("lmcache", (f"{_V1}.lmcache_connector",), "LMCacheConnectorV1"),
}
"""Class name: the form it reports, the modules its base may be in, and the base's name there."""


class _Nothing(base.KVConnectorMetadata):
    """Orders for the workers: none."""


class _IdleConnector(base.KVConnectorBase_V1, base.SupportsHMA):
    """A connector that neither has nor takes anything, in every call vLLM requires."""

    @property
    def requires_kv_delivery(self) -> bool:
        """Nothing is handed off, so a preempted request may keep its output."""
        return False

    def get_num_new_matched_tokens(
        self, request: EngineRequest, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Offer no token."""
        return 0, False

    def update_state_after_alloc(
        self, request: EngineRequest, blocks: object, num_external_tokens: int
    ) -> object:
        """Load nothing."""
        return None

    def build_connector_meta(self, scheduler_output: object) -> object:
        """Order nothing."""
        return _Nothing()

    def request_finished(self, request: EngineRequest, block_ids: object) -> object:
        """Keep no block."""
        return False, None

    def request_finished_all_groups(self, request: EngineRequest, block_ids: object) -> object:
        """Keep no block."""
        return False, None

    def start_load_kv(self, forward_context: object, **kwargs: object) -> None:
        """Load nothing."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Wait for nothing."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: object, attn_metadata: object, **kwargs: object
    ) -> None:
        """Save nothing."""

    def wait_for_save(self) -> None:
        """Wait for nothing."""

    def reset_cache(self) -> bool:
        """There is nothing to reset, and it worked: False would fail a reset of the engine's own cache."""
        return True


class ObservingConnector(ObserverMixin, _IdleConnector):
    """Observes an engine that has no connector of its own."""


def __getattr__(name: str) -> Any:  # noqa: ANN401  the signature Python asks for
    """Make a wrapped connector. Raises ImportError naming what its base needs, when that is missing."""
    if name not in WRAPPED:
        raise AttributeError(f"{__name__} has no {name}; there are ObservingConnector, {', '.join(WRAPPED)}")
    form, modules, base_name = WRAPPED[name]
    connector = type(
        name,
        (ObserverMixin, _first_importable(modules, base_name)),
        {"__module__": __name__, "__doc__": f"Observes {base_name}.", "form": form},
    )
    globals()[name] = connector
    return connector


def _first_importable(modules: tuple[str, ...], name: str) -> type:
    problems = []
    for module in modules:
        try:
            found: type = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            problems.append(f"{module}: {error}")
        else:
            return found
    raise ImportError(f"{name} cannot be observed, because it cannot be imported: {'; '.join(problems)}")
