"""The last resort: finished requests as the frontend's statistics tell them; no code in the engine core.

vLLM loads it from the entry point `vllm.stat_logger_plugins` wherever the distribution is installed. It does
nothing until TIERSCOPE_PROBE_STAT_LOGGER=1. It knows no block hashes, no split of the cached tokens by tier,
no aborted requests; the children of n > 1 share one id. Several API servers of one engine would want the same
address: only the first gets it, so give each its own.
"""

from __future__ import annotations

import time

from vllm.v1.metrics.loggers import StatLoggerBase

from tierscope_probe import records
from tierscope_probe.probe import start_probe

NEEDED = ("request_id", "num_cached_tokens")
"""Attributes of FinishedRequestStats without which a record says nothing."""


class FinishedRequestLogger(StatLoggerBase):
    """Sends one `summary` record a finished request."""

    def __init__(self, vllm_config: object, engine_index: int = 0) -> None:
        self._probe = start_probe(
            "stat_logger", vllm_config, rank=engine_index, wanted=lambda settings: settings.stat_logger
        )

    def record(
        self,
        scheduler_stats: object,
        iteration_stats: object,
        mm_cache_stats: object = None,
        engine_idx: int = 0,
    ) -> None:
        """Take in the statistics of one step; any of them may be None."""
        if self._probe is None:
            return
        try:
            for finished in getattr(iteration_stats, "finished_requests", ()):
                self._send(finished)
        except Exception as error:  # noqa: BLE001  an exception here would end the server
            if self._probe is not None:
                self._probe.errors.add("read a finished request", error)

    def _send(self, finished: object) -> None:
        if self._probe is None:
            return
        missing = [name for name in NEEDED if not hasattr(finished, name)]
        if missing:
            self._probe.errors.add("use this vLLM, 0.20 or newer is needed", f"no {', '.join(missing)}")
            self._probe.close()
            self._probe = None
            return
        self._probe.sender.offer((records.summary, (finished, time.time())))

    def log_engine_initialized(self) -> None:
        """Nothing to say."""
