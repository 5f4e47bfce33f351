"""An engine's container: where its page and its streams are, told by its arguments and variables. Pure.

Whoever starts an engine writes down where it publishes; that is read here, so that it need not be written
twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporters.pods.addresses import page, port_of, reached, shifted
from exporters.pods.objects import Container
from tierscope.domain.command_line import Options, document_of, number_of, options_of, words_of
from tierscope.domain.settings import EngineSettings, InProcessLmcacheSettings
from tierscope.domain.units import GIB

PAGE_PORT = 8000
"""Where vLLM listens unless told otherwise."""
EVENTS = "tcp://*:5557"
HOOK, HOOK_REPLAY = "tcp://*:5757", "tcp://*:5857"
STORAGE, STORAGE_REPLAY = "tcp://*:5777", "tcp://*:5877"
"""Addresses that vLLM's KV events and the probe have unless told otherwise."""
PROBE = "tierscope_probe."
OFF = frozenset({"0", "false", "off", "no"})
IN_ENGINE = ("LMCacheConnector", "ObservingLMCacheConnector")
NODE_SERVER = "LMCacheMPConnector"
MOST_PROCESSES = 64
"""Ranks or workers that a pod is believed to have: a slip of the pen must not open a million sockets."""
INTERNAL_PAGES_PORT = 6999
"""LMCache's own pages begin here with the scheduler's; workers follow."""


@dataclass(frozen=True, slots=True)
class EngineContainer:
    """The container that an engine runs in: its arguments, its variables, and the address of its pod."""

    options: Options
    words: tuple[str, ...]
    environment: Mapping[str, str]
    host: str
    port: int

    @property
    def connector(self) -> Mapping[str, object]:
        """The last `--kv-transfer-config`, which is the one that wins; empty without one."""
        return self.options.document("kv-transfer-config")

    @property
    def connectors_given(self) -> int:
        """How often `--kv-transfer-config` is on the command line."""
        return sum(word.partition("=")[0].replace("_", "-") == "--kv-transfer-config" for word in self.words)

    @property
    def connector_name(self) -> str:
        """The connector's name; empty without one."""
        return str(self.connector.get("kv_connector", ""))

    @property
    def loads_from_server(self) -> bool:
        """Whether its L1 is an LMCache server beside it."""
        return self.connector_name.endswith(NODE_SERVER)

    @property
    def has_cache_inside(self) -> bool:
        """Whether LMCache runs inside it, which its connector says, or LMCache's own variables."""
        if self.connector_name:
            return self.connector_name.startswith(IN_ENGINE)
        return any(name.startswith("LMCACHE_") for name in self.environment)

    @property
    def ranks(self) -> int:
        """Data-parallel ranks in this pod, each an engine of its own."""
        options = self.options
        told = options.whole("data-parallel-size-local") or options.whole("data-parallel-size") or 1
        return min(max(told, 1), MOST_PROCESSES)

    @property
    def workers(self) -> int:
        """Worker processes of each rank."""
        options = self.options
        told = (options.whole("tensor-parallel-size") or 1) * (options.whole("pipeline-parallel-size") or 1)
        return min(max(told, 1), MOST_PROCESSES)


def engine_container(containers: tuple[Container, ...], host: str) -> EngineContainer | None:
    """The container with accelerators, else the first that speaks of vLLM; None where there is neither."""
    for container in containers:
        limits = container.resources.limits if container.resources is not None else None
        if any(name.endswith("/gpu") or "neuron" in name for name in limits or {}):
            return _engine(container, host)
    for container in containers:
        if any("vllm" in word for word in (*_words(container), container.image)):
            return _engine(container, host)
    return None


def engines_in(
    engine: EngineContainer, namespace: str, endpoint: str, pod: str
) -> tuple[EngineSettings, ...]:
    """The settings of every rank, without streams that are off or that cannot be reached from outside."""
    events, events_replay = _events(engine)
    hook, hook_replay = _hook(engine)
    return tuple(
        EngineSettings(
            namespace=namespace,
            endpoint=endpoint,
            replica=pod,
            rank=rank,
            metrics_url=f"{page(engine.host, engine.port)}/metrics",
            events_endpoint=shifted(reached(events, engine.host), rank),
            events_replay_endpoint=shifted(reached(events_replay, engine.host), rank),
            hook_endpoint=shifted(reached(hook, engine.host), rank),
            hook_replay_endpoint=shifted(reached(hook_replay, engine.host), rank),
            lmcache=None,
        )
        for rank in range(engine.ranks)
    )


def cache_inside(
    engine: EngineContainer, name: str, pool: str | None, *, pool_is_scanned: bool
) -> InProcessLmcacheSettings | None:
    """LMCache inside an engine of one rank; None where there is none, or where ranks share the variables.

    With several data-parallel ranks each has an LMCache of its own behind one set of ports; whose is whose
    cannot be told from outside.
    """
    if not engine.has_cache_inside or engine.ranks > 1:
        return None
    environment, workers = engine.environment, engine.workers
    size = number_of(environment.get("LMCACHE_MAX_LOCAL_CPU_SIZE"))
    chunk = number_of(environment.get("LMCACHE_CHUNK_SIZE"))
    storage, storage_replay = _storage(environment)
    at = [shifted(reached(storage, engine.host), worker) for worker in range(workers)]
    replays = [shifted(reached(storage_replay, engine.host), worker) for worker in range(workers)]
    return InProcessLmcacheSettings(
        name=name,
        urls=_internal_pages(engine),
        workers=workers,
        l1_bytes=size * GIB if size else None,
        chunk_tokens=int(chunk) if chunk else None,
        pool=pool,
        pool_is_scanned=pool_is_scanned,
        storage_endpoints=tuple(one for one in at if one is not None),
        storage_replay_endpoints=tuple(one for one in replays if one is not None),
    )


def _engine(container: Container, host: str) -> EngineContainer:
    words = _words(container)
    options = options_of(words)
    declared = [port.container_port for port in container.ports or ()]
    environment = {one.name: one.value for one in container.env or () if one.value is not None}
    port = port_of(options.whole("port")) or port_of(next(iter(declared), None)) or PAGE_PORT
    return EngineContainer(options, words, environment, host, port)


def _words(container: Container) -> tuple[str, ...]:
    return tuple(words_of(container.command or (), container.args or ()))


def _events(engine: EngineContainer) -> tuple[str | None, str | None]:
    given = engine.options.document("kv-events-config")
    if given.get("enable_kv_cache_events") is not True or given.get("publisher", "zmq") != "zmq":
        return None, None
    replay = given.get("replay_endpoint")
    return str(given.get("endpoint", EVENTS)), str(replay) if replay else None


def _hook(engine: EngineContainer) -> tuple[str | None, str | None]:
    environment = engine.environment
    extra = engine.connector.get("kv_connector_extra_config")
    given = extra.get("tierscope") if isinstance(extra, Mapping) else None
    is_on = (
        str(engine.connector.get("kv_connector_module_path", "")).startswith(PROBE)
        or (engine.options.text("scheduler-cls") or "").startswith(PROBE)
        or environment.get("TIERSCOPE_PROBE_STAT_LOGGER", "0").lower() not in OFF
    )
    if not is_on or environment.get("TIERSCOPE_PROBE", "1").lower() in OFF:
        return None, None
    return _probe_addresses(given, environment, "TIERSCOPE_PROBE_", HOOK, HOOK_REPLAY)


def _storage(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    extra = document_of(environment.get("LMCACHE_EXTRA_CONFIG"))
    modules = [str(value) for key, value in extra.items() if str(key).endswith(".module_path")]
    if not any(module.startswith(PROBE) for module in modules):
        return None, None
    return _probe_addresses(
        extra.get("tierscope"), environment, "TIERSCOPE_PROBE_STORAGE_", STORAGE, STORAGE_REPLAY
    )


def _probe_addresses(
    given: object, environment: Mapping[str, str], prefix: str, endpoint: str, replay: str
) -> tuple[str, str]:
    """Where the probe binds: its extra configuration wins over its variables, and those over its defaults."""
    told = given if isinstance(given, Mapping) else {}
    return (
        str(told.get("endpoint") or environment.get(f"{prefix}ENDPOINT") or endpoint),
        str(told.get("replay_endpoint") or environment.get(f"{prefix}REPLAY_ENDPOINT") or replay),
    )


def _internal_pages(engine: EngineContainer) -> tuple[str, ...]:
    environment = engine.environment
    if environment.get("LMCACHE_INTERNAL_API_SERVER_ENABLED", "").lower() not in {"true", "1"}:
        return ()
    start = int(number_of(environment.get("LMCACHE_INTERNAL_API_SERVER_PORT_START")) or INTERNAL_PAGES_PORT)
    ports = (port_of(start + 1 + worker) for worker in range(engine.workers))
    return tuple(page(engine.host, port) for port in ports if port is not None)
