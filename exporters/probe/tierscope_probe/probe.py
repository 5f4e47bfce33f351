"""Putting one engine's probe together: settings, sender, observer."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from tierscope_probe import records
from tierscope_probe.engine import extra_config, facts_of, hash_unit_tokens
from tierscope_probe.errors import ErrorCount
from tierscope_probe.observer import Observer
from tierscope_probe.records import Record
from tierscope_probe.sender import Sender
from tierscope_probe.settings import ProbeSettings, read_settings
from tierscope_probe.versions import installed_versions

log = logging.getLogger(__name__)


class Probe:
    """The running probe of one engine (data-parallel rank)."""

    def __init__(
        self,
        form: str,
        vllm_config: object,
        kv_cache_config: object,
        settings: ProbeSettings,
        rank: int | None = None,
    ) -> None:
        self._form = form
        facts = facts_of(vllm_config)
        self._facts = facts if rank is None else replace(facts, rank=rank)
        self.errors = ErrorCount()
        for problem in settings.problems:
            self.errors.add("understand a setting", problem)
        self.sender = Sender(settings, form=form, rank=self._facts.rank, stats=self.stats, errors=self.errors)
        self.observer = Observer(
            self.sender.offer,
            unit_tokens=self._facts.block_tokens,
            other_units=lambda: hash_unit_tokens(vllm_config, kv_cache_config),
            unit_changed=self._unit_changed,
            errors=self.errors,
        )
        self._introduce()
        self.sender.start()

    def stats(self) -> Record:
        """How much the probe did and cost so far; all counts are since the engine's start."""
        return {
            "t": "stats",
            "ts": time.time(),
            "ns": dict(self.observer.spent_ns),
            "n": dict(self.observer.calls),
            "errors": self.errors.count,
            "dropped": self.sender.dropped,
            "enc_ns": self.sender.encode_ns,
            "sent": self.sender.sent,
        }

    def close(self) -> None:
        """Send what waits, free the addresses; never raises."""
        try:
            self.sender.close()
        except Exception as error:  # noqa: BLE001  the engine is shutting down; let it
            self.errors.add("close", error)

    def _introduce(self) -> None:
        self.sender.introduce(records.hello(self._facts, self._form, time.time(), installed_versions()))

    def _unit_changed(self, unit_tokens: int) -> None:
        self._facts = replace(self._facts, block_tokens=unit_tokens)
        self._introduce()


def start_probe(
    form: str,
    vllm_config: object,
    kv_cache_config: object = None,
    *,
    environ: Mapping[str, str] = os.environ,
    rank: int | None = None,
    wanted: Callable[[ProbeSettings], bool] = lambda _: True,
) -> Probe | None:
    """Start the probe of one engine. Returns None where it is switched off or cannot start; never raises.

    `rank` overrides the data-parallel rank that the configuration states.
    """
    try:
        settings = read_settings(extra_config(vllm_config), environ)
        if not (settings.enabled and wanted(settings)):
            return None
        return Probe(form, vllm_config, kv_cache_config, settings, rank)
    except Exception:
        log.exception("the probe did not start; the engine goes on without it")
        return None
