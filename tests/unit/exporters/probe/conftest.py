"""Importing the probe's modules against a vLLM that is none."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from tests.fake_vllm import (
    V1,
    AsyncScheduler,
    KVConnectorBase,
    OffloadingConnector,
    Scheduler,
    StatLoggerBase,
    SupportsHMA,
)
from tierscope_probe.sender import Sender

OURS = ("tierscope_probe.connectors", "tierscope_probe.stat_logger")
"""The modules whose import needs vLLM."""


@pytest.fixture
def fake_vllm(monkeypatch):
    """Return a function that makes module after module importable, and forgets ours that import them."""

    def add(module: str, **contents: object) -> ModuleType:
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name not in sys.modules:
                package = ModuleType(name)
                package.__path__ = []
                monkeypatch.setitem(sys.modules, name, package)
                if end > 1:
                    monkeypatch.setattr(
                        sys.modules[".".join(parts[: end - 1])], parts[end - 1], package, raising=False
                    )
        made = sys.modules[module]
        for name, value in contents.items():
            monkeypatch.setattr(made, name, value, raising=False)
        return made

    for name in OURS:
        sys.modules.pop(name, None)
    yield add
    for name in OURS:
        sys.modules.pop(name, None)


@pytest.fixture
def vllm_release(fake_vllm):
    """A whole release: connectors, schedulers, statistics, stat loggers."""
    metadata = type("KVConnectorMetadata", (), {})
    fake_vllm(
        f"{V1}.base",
        KVConnectorBase_V1=KVConnectorBase,
        SupportsHMA=SupportsHMA,
        KVConnectorMetadata=metadata,
    )
    fake_vllm(f"{V1}.offloading_connector", OffloadingConnector=OffloadingConnector)
    fake_vllm("vllm.v1.core.sched.scheduler", Scheduler=Scheduler)
    fake_vllm("vllm.v1.core.sched.async_scheduler", AsyncScheduler=AsyncScheduler)
    fake_vllm("vllm.v1.metrics.stats", PrefillStats=object)
    fake_vllm("vllm.v1.metrics.loggers", StatLoggerBase=StatLoggerBase)
    return fake_vllm


@pytest.fixture
def imported():
    """Return a function that imports a module of the probe at the time it is called."""
    return importlib.import_module


@pytest.fixture
def sent(monkeypatch):
    """The records that senders were given, with no thread and no socket."""
    drafts: list[tuple] = []
    monkeypatch.setattr(Sender, "start", lambda _: None)
    monkeypatch.setattr(Sender, "offer", lambda _, draft: drafts.append(draft))

    def records() -> list[dict]:
        return [build(*values) for build, values in drafts]

    return records
