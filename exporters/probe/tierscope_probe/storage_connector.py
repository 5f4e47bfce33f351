"""The hook in the storage of LMCache inside an engine: LMCache's own file-system connector, observed.

    LMCACHE_REMOTE_STORAGE_PLUGINS=tierscope
    LMCACHE_EXTRA_CONFIG='{"remote_storage_plugin.tierscope.module_path": "tierscope_probe.storage_connector",
                           "remote_storage_plugin.tierscope.class_name": "ObservingFSConnector",
                           "fs_base_path": "/mnt/pool/kv"}'

Every worker of the engine makes one, and each publishes for itself: worker w binds port + w.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from lmcache.v1.storage_backend.connector.fs_connector import FSConnector

from tierscope_probe.errors import ErrorCount
from tierscope_probe.records import Record
from tierscope_probe.sender import Sender
from tierscope_probe.settings import OFF, ProbeSettings, read_settings
from tierscope_probe.storage import Held, StorageObserver, write_record
from tierscope_probe.versions import installed_versions

log = logging.getLogger(__name__)

FORM = "lmcache_storage"
L2_NAME = "fs"
ENDPOINTS = {"endpoint": "tcp://*:5777", "replay_endpoint": "tcp://*:5877"}
"""Defaults; those of a vLLM engine and of an LMCache server on the same host are others."""

_LOOKUP: ContextVar[str | None] = ContextVar("lookup", default=None)
"""For whom a whole lookup is read ahead, where LMCache says it."""


class ObservingFSConnector(FSConnector):
    """LMCache's connector to a directory; what it reads and writes is told to the probe."""

    _probe: StorageProbe | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  they differ from release to release
        super().__init__(*args, **kwargs)
        self._probe = start_storage_probe(self)

    async def get(self, key: Any) -> Any:  # noqa: ANN401  LMCache's own types, here and below
        """Read a chunk, None where it is not there."""
        if self._probe is None:
            return await super().get(key)
        began, found = time.time(), None
        try:
            found = await super().get(key)
            return found
        finally:
            self._probe.observer.read(key, _size(found), (began, time.time()), _LOOKUP.get())

    async def put(self, key: Any, memory_obj: Any) -> Any:  # noqa: ANN401
        """Write a chunk."""
        if self._probe is None:
            return await super().put(key, memory_obj)
        began, size, written = time.time(), _size(memory_obj), None
        try:
            answer = await super().put(key, memory_obj)
            written = size
            return answer
        finally:
            self._probe.observer.wrote(key, written, (began, time.time()))

    async def exists(self, key: Any) -> Any:  # noqa: ANN401
        """Whether a chunk is there."""
        return self._looked_for(await super().exists(key))

    def exists_sync(self, key: Any) -> Any:  # noqa: ANN401
        """Whether a chunk is there."""
        return self._looked_for(super().exists_sync(key))

    async def batched_get_non_blocking(self, lookup_id: str, keys: Any) -> Any:  # noqa: ANN401
        """Read ahead what a lookup found; layer by layer LMCache names no lookup."""
        token = _LOOKUP.set(None if lookup_id == "fake_lookup_id" else lookup_id)
        try:
            return await super().batched_get_non_blocking(lookup_id, keys)
        finally:
            _LOOKUP.reset(token)

    async def close(self) -> Any:  # noqa: ANN401
        """Send the last records, then close."""
        if self._probe is not None:
            self._probe.close()
        return await super().close()

    def _looked_for(self, found: Any) -> Any:  # noqa: ANN401
        if self._probe is not None:
            self._probe.observer.looked_for(found)
        return found


class StorageProbe:
    """The running probe of one worker's storage."""

    def __init__(self, connector: Any, settings: ProbeSettings) -> None:  # noqa: ANN401
        backend = connector.local_cpu_backend
        config, metadata = backend.config, backend.metadata
        self._errors = ErrorCount()
        for problem in settings.problems:
            self._errors.add("understand a setting", problem)
        worker = int(metadata.worker_id)
        self.sender = Sender(settings, form=FORM, rank=worker, stats=self._stats, errors=self._errors)
        chunk_tokens = int(config.chunk_size)
        self.observer = StorageObserver(
            self.sender.offer,
            pins=lookup_pins,
            tokens_of=_tokens_of(connector, config, chunk_tokens),
            errors=self._errors,
        )
        self.sender.introduce(
            write_record(
                "hello",
                time.time(),
                FORM,
                str(getattr(config, "lmcache_instance_id", "")),
                worker,
                secrets.randbits(63),
                chunk_tokens,
                L2_NAME,
                installed_versions(),
            )
        )
        self.sender.start()

    def close(self) -> None:
        """Send what waits, free the addresses; never raises."""
        try:
            self.sender.close()
        except Exception as error:  # noqa: BLE001  the engine is shutting down; let it
            self._errors.add("close", error)

    def _stats(self) -> Record:
        seen, sender = self.observer, self.sender
        counts = (seen.asked, seen.found, seen.calls, seen.spent_ns, sender.dropped, self._errors.count)
        return write_record("stats", time.time(), sender.waiting, *counts, sender.sent, sender.encode_ns)


def start_storage_probe(
    connector: Any,  # noqa: ANN401
    environ: Mapping[str, str] = os.environ,
) -> StorageProbe | None:
    """Start the probe of one worker's storage. Returns None where it is off or cannot start; never raises.

    The scheduler's LMCache, where there is one, reads nothing and has none.
    """
    try:
        backend = connector.local_cpu_backend
        settings = storage_settings(backend.config.extra_config or {}, environ)
        if not settings.enabled or getattr(backend.metadata, "role", "worker") == "scheduler":
            return None
        return StorageProbe(connector, settings)
    except Exception:
        log.exception("the probe did not start; LMCache goes on without it")
        return None


def storage_settings(extra: Mapping[str, object], environ: Mapping[str, str]) -> ProbeSettings:
    """Return the settings from LMCache's extra config, under `tierscope`, and from the environment.

    Beside the settings of `tierscope_probe.settings` there is `enabled`.
    """
    given = extra.get("tierscope", {})
    if isinstance(given, Mapping):
        given = dict(given)
        if str(given.pop("enabled", True)).lower() in OFF:
            environ = {"TIERSCOPE_PROBE": "0"}
        for name, address in ENDPOINTS.items():
            if f"TIERSCOPE_PROBE_STORAGE_{name.upper()}" in environ:
                given.setdefault(name, environ[f"TIERSCOPE_PROBE_STORAGE_{name.upper()}"])
            given.setdefault(name, address)
    return read_settings({"tierscope": given}, environ)


def lookup_pins() -> Iterable[tuple[str, Held]]:
    """Return what the lookups of every LMCache in this process hold, in the order they were made."""
    from lmcache.v1.cache_engine import LMCacheEngineBuilder  # noqa: PLC0415  it imports the connectors

    engines = list(getattr(LMCacheEngineBuilder, "_instances", {}).values())
    return [pin for engine in engines for pin in list(getattr(engine, "lookup_pins", {}).items())]


def _tokens_of(connector: Any, config: Any, chunk_tokens: int) -> Any:  # noqa: ANN401
    """Return what tells an object's tokens by its bytes: a prompt's tail may be kept as a part of a chunk."""
    token_bytes = getattr(connector, "single_token_size", None)
    whole_bytes = getattr(connector, "full_chunk_size_bytes", None)
    plain = getattr(config, "remote_serde", None) == "naive" and not getattr(config, "use_layerwise", False)
    if not (plain and token_bytes and whole_bytes):
        return lambda _: chunk_tokens
    return lambda size_bytes: min(chunk_tokens, size_bytes // token_bytes)


def _size(memory_obj: Any) -> int | None:  # noqa: ANN401
    return None if memory_obj is None else int(memory_obj.get_size())
