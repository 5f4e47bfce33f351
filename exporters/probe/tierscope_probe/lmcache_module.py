"""The hook inside an LMCache multiprocess server: name it in `--server-module`.

    lmcache server --server-module '{"module_path": "tierscope_probe.lmcache_module", "config": {…}}'

It subscribes to the server's event bus. The bus has one thread for all subscribers, so an event costs
that thread an append; records are made and sent by a thread of our own.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol

from tierscope_probe.errors import ErrorCount
from tierscope_probe.lmcache_events import Translator
from tierscope_probe.lmcache_records import BusEvent, Writer
from tierscope_probe.records import Draft, Record
from tierscope_probe.sender import Sender
from tierscope_probe.settings import OFF, ProbeSettings, read_settings
from tierscope_probe.versions import installed_versions

log = logging.getLogger(__name__)

FORM = "lmcache_mp"
STATUS_KEY = __name__.partition(".")[0]
"""Under which name the server's `/status` shows the probe's counts."""
ENDPOINTS = {"endpoint": "tcp://*:5767", "replay_endpoint": "tcp://*:5867"}
"""Defaults; those of a vLLM engine on the same host are others."""


class EventBus(Protocol):
    """What the probe asks of LMCache's bus."""

    def subscribe(self, event_type: Any, callback: Callable[[Any], None]) -> None:  # noqa: ANN401  an enumeration's member
        """Have a callback called with every event of a type."""

    def register_subscriber(self, subscriber: Any) -> None:  # noqa: ANN401  anything with register and shutdown
        """Have a subscriber register, and shut it down after the last event."""

    def dropped_events_count(self) -> int:
        """Events that the bus itself threw away."""


class BuildContext(Protocol):
    """What LMCache hands to the factory of a server module."""

    server_context: Any
    mp_config: Any
    config: dict[str, Any]


class BusSubscriber:
    """Puts events in line for the sender's thread.

    Methods are called by the bus: `register` once, the callbacks by its thread alone. `spent_ns` and
    `events` say how long that thread was kept. `missing` are events that this release does not have.
    """

    def __init__(
        self,
        event_types: Iterable[Any],
        names: Iterable[str],
        *,
        offer: Callable[[Draft], None],
        translate: Callable[[str, BusEvent], list[Record]],
        shut_down: Callable[[], None],
    ) -> None:
        known = {each.value: each for each in event_types}
        self._subscriptions = {name: known[name] for name in names if name in known}
        self.missing = tuple(name for name in names if name not in known)
        self._offer = offer
        self._translate = translate
        self._shut_down = shut_down
        self.spent_ns = self.events = 0

    def register(self, bus: EventBus) -> None:
        """Subscribe to every event the records are made of."""
        for name, event_type in self._subscriptions.items():
            bus.subscribe(event_type, self._callback(name))

    def shutdown(self) -> None:
        """The bus has delivered its last event."""
        self._shut_down()

    def _callback(self, name: str) -> Callable[[BusEvent], None]:
        offer, translate, stopwatch = self._offer, self._translate, time.perf_counter_ns

        def take(event: BusEvent) -> None:
            began = stopwatch()
            offer((translate, (name, event)))
            self.events += 1
            self.spent_ns += stopwatch() - began

        return take


class ServerModule:
    """The probe as a module of the server: its lifetime and its part of `/status`."""

    def __init__(
        self,
        build: BuildContext,
        event_types: Iterable[Any],
        settings: ProbeSettings,
        *,
        salt_key: bytes = b"",
        incarnation: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._context = build.server_context
        self._bus = build.server_context.event_bus
        self._clock = clock
        self._errors = ErrorCount()
        for problem in settings.problems:
            self._errors.add("understand a setting", problem)
        self._translator = Translator(self._errors, salt_key=salt_key)
        self.sender = Sender(settings, form=FORM, rank=0, stats=self._stats, errors=self._errors)
        self._subscriber = BusSubscriber(
            event_types,
            tuple(self._translator.handlers),
            offer=self.sender.offer,
            translate=self._translator.translate,
            shut_down=self.close,
        )
        self._closed = False
        self.sender.introduce(
            self._hello(build, secrets.randbits(63) if incarnation is None else incarnation)
        )
        self.sender.start()
        self._bus.register_subscriber(self._subscriber)

    @property
    def context(self) -> Any:  # noqa: ANN401  the server's
        """The server's context, as the interface of modules wants it."""
        return self._context

    def report_status(self) -> dict[str, object]:
        """Return the probe's counts, for the server's `/status`; never raises."""
        return {STATUS_KEY: self._counts()}

    def close(self) -> None:
        """Send what waits and free the addresses; never raises, and does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        try:
            self.sender.offer((self._translator.overdue, (float("inf"),)))
            self.sender.close()
        except Exception as error:  # noqa: BLE001  the server is shutting down; let it
            self._errors.add("close", error)

    def _counts(self) -> dict[str, object]:
        return {
            "events": self._subscriber.events,
            "ns": self._subscriber.spent_ns,
            "dropped": self.sender.dropped,
            "errors": self._errors.count,
            "sent": self.sender.sent,
            "enc_ns": self.sender.encode_ns,
            "bus_dropped": _asked(self._bus, "dropped_events_count"),
            "bus_exceptions": _exceptions(_asked(self._bus, "subscriber_exception_counts")),
            "bus_queue": _asked(self._bus, "queue_depth"),
            "bus_lag_s": _asked(self._bus, "oldest_event_lag_seconds"),
        }

    def _stats(self) -> list[Record]:
        now = self._clock()
        return [*self._translator.overdue(now), Writer().write("stats", now, *self._counts().values())]

    def _hello(self, build: BuildContext, incarnation: int) -> Record:
        hasher = getattr(self._context, "token_hasher", None)
        return Writer().write(
            "hello",
            self._clock(),
            FORM,
            str(build.mp_config.instance_id),
            incarnation,
            self._context.chunk_size,
            getattr(hasher, "hash_algorithm_name", None),
            list(self._subscriber.missing),
            installed_versions(),
        )


def build_server_modules(build: BuildContext) -> ServerModule | None:
    """Start the probe in a server. Returns None where it is switched off or cannot start; never raises."""
    try:
        settings, salt_key = module_settings(build.config, os.environ)
        if not settings.enabled:
            return None
        event_types = import_module("lmcache.v1.mp_observability.event").EventType
        return ServerModule(build, event_types, settings, salt_key=salt_key)
    except Exception:
        log.exception("the probe did not start; the server goes on without it")
        return None


def module_settings(config: Mapping[str, object], environ: Mapping[str, str]) -> tuple[ProbeSettings, bytes]:
    """Return the settings and the key for digests of salts, from the module's `config` and the environment.

    Beside the settings of `tierscope_probe.settings` there are `enabled` and `salt_key`.
    """
    given = dict(config)
    enabled = str(given.pop("enabled", True)).lower() not in OFF
    salt_key = given.pop("salt_key", environ.get("TIERSCOPE_PROBE_SALT_KEY", ""))
    for name, address in ENDPOINTS.items():
        if f"TIERSCOPE_PROBE_{name.upper()}" not in environ:
            given.setdefault(name, address)
    settings = read_settings({"tierscope": given}, environ if enabled else {"TIERSCOPE_PROBE": "0"})
    return settings, str(salt_key).encode()[:64]


def _asked(bus: object, method: str) -> Any:  # noqa: ANN401  whatever the bus says
    """Return what a method of the bus says of itself; None where this release lacks it."""
    ask = getattr(bus, method, None)
    return ask() if callable(ask) else None


def _exceptions(counts: object) -> int | None:
    """Exceptions in our own callbacks, by the name under which the bus counts free functions."""
    if not isinstance(counts, Mapping):
        return None
    return sum(int(count) for name, count in counts.items() if "BusSubscriber" in str(name))
