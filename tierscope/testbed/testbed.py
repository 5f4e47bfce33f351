"""The testbed as its users see it: start it, read it like a deployment, ask it what it sent, stop it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from tierscope.domain.deployment import Deployment, TierConfig
from tierscope.domain.requests import TokenSplit
from tierscope.domain.settings import CurvineSettings, EngineSettings, ExporterSettings, LmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import Trace
from tierscope.testbed.clock import VirtualClock
from tierscope.testbed.config import Faults, Incident, TestbedConfig
from tierscope.testbed.model.fleet import DRAIN_SECONDS
from tierscope.testbed.running import Running
from tierscope.testbed.sites import CURVINE, lmcache_site, vllm_site
from tierscope.testbed.wire.tally import Tally
from tierscope.testbed.workload.mixed import MixedWorkload
from tierscope.testbed.workload.replay import TraceWorkload
from tierscope.testbed.workload.request import Workload


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come. `share` is 0 to 1, None for a run without end."""

    virtual_unix_seconds: float
    requests: int
    share: float | None


class Testbed:
    """A deployment on loopback without GPUs.

    What the engines decide depends on the configuration and the trace alone; the clocks only decide
    when it is told. Every time that is sent is a virtual unix time, which is never ahead of `clock`.
    A trace brings its own block size, requests and times; its length bounds the run. `tally` makes what
    counts a replica's records as they go out, one replica after the other.
    """

    __test__: ClassVar[bool] = False

    def __init__(
        self,
        config: TestbedConfig,
        trace: Trace | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        tally: Callable[[], Tally] = Tally,
    ) -> None:
        self.config = config if trace is None else _cut_for(config, trace)
        self._trace = trace
        self._clock = clock
        self._monotonic = monotonic
        self._tally = tally
        self._faults = config.faults
        self._running: Running | None = None
        self._stopped = False

    def start(self) -> None:
        """Bind every address and let virtual time run; once."""
        if self._running is not None:
            raise RuntimeError("a testbed starts once")
        config = self.config
        if config.duration_seconds is None:
            behind_seconds = config.history_seconds
        else:
            span_seconds = config.duration_seconds + DRAIN_SECONDS
            behind_seconds = span_seconds - span_seconds / config.speed
        self._running = Running(
            config,
            self._workload(),
            VirtualClock(behind_seconds, config.speed),
            epoch_unix_seconds=self._clock() - behind_seconds,
            monotonic=self._monotonic,
            faults=lambda: self._faults,
            tally=self._tally,
        )

    def stop(self) -> None:
        """Stop at once; no thread and no socket is left. What was sent can still be asked for."""
        if self._running is not None and not self._stopped:
            self._stopped = True
            self._running.close()

    def __enter__(self) -> Testbed:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def finished(self) -> bool:
        """Whether every request of a bounded run has ended and every record went out."""
        return self._started().finished.is_set()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until `finished`; whether it is."""
        return self._started().finished.wait(timeout_seconds)

    def progress(self) -> Progress:
        """How far the run has come."""
        running = self._started()
        now_seconds, requests = running.now()
        bound = self.config.duration_seconds
        share = None if bound is None else 1.0 if running.finished.is_set() else min(now_seconds / bound, 1.0)
        return Progress(running.epoch_unix_seconds + now_seconds, requests, share)

    def now_unix_seconds(self) -> float:
        """Virtual unix time. As the clock of whoever reads the testbed, it puts readings among records."""
        return self._started().now_unix_seconds()

    def sent(self) -> TokenSplit:
        """Tokens by origin of first admissions that reached their first token, as the records sent say."""
        return self._started().sent()

    def inject(self, faults: Faults) -> None:
        """Replace the faults from now on; `restarts` and `incidents` are ignored: see below."""
        self._faults = faults

    def restart(self, replica: int) -> None:
        """Restart a replica's engine within a step: sequences at 0, counters at 0, L0 empty."""
        self._started().restart(replica)

    def befall(self, incident: Incident) -> None:
        """Let an incident change the deployment within a step, whatever its `at_seconds`."""
        self._started().befall(incident)

    def settings(self) -> ExporterSettings:
        """What an exporter needs to read everything here."""
        running, config = self._started(), self.config
        engines = tuple(
            EngineSettings(
                namespace=config.namespace,
                endpoint=config.endpoint,
                replica=config.replica_name(index),
                metrics_url=running.pages.url(vllm_site(index)) + "/metrics",
                events_endpoint=replica.events.stream.endpoint,
                events_replay_endpoint=replica.events.stream.replay_endpoint,
                hook_endpoint=replica.hook.stream.endpoint,
                hook_replay_endpoint=replica.hook.stream.replay_endpoint,
                lmcache=lmcache_site(index),
            )
            for index, replica in enumerate(running.replicas)
        )
        servers = tuple(
            LmcacheSettings(
                name=lmcache_site(index),
                url=running.pages.url(lmcache_site(index)),
                pool=CURVINE,
                records_endpoint=replica.cache.stream.endpoint if config.cache_probe else None,
                records_replay_endpoint=replica.cache.stream.replay_endpoint if config.cache_probe else None,
            )
            for index, replica in enumerate(running.replicas)
        )
        pool = CurvineSettings(name=CURVINE, master_urls=(running.pages.url(CURVINE),))
        return ExporterSettings(name="testbed", engines=engines, lmcache=servers, curvine=(pool,))

    def deployment(self) -> Deployment:
        """The endpoint as configured."""
        config = self.config
        return Deployment(
            namespace=config.namespace,
            endpoint=config.endpoint,
            model=config.model,
            replicas=config.replicas,
            routing=config.routing,
            tiers=(
                TierConfig(Tier.L0, config.l0_bytes, config.l0_limit_bytes),
                TierConfig(Tier.L1, config.l1_bytes, config.l1_limit_bytes),
                TierConfig(Tier.L2, config.l2_bytes, config.l2_limit_bytes),
            ),
            bytes_per_token=float(config.bytes_per_token),
            objective=config.objective,
            l2_workers=config.l2_workers,
            l1_keeps_loads=config.l1_retain_loads,
        )

    def _workload(self) -> Workload:
        config = self.config
        if self._trace is not None:
            return TraceWorkload(self._trace, seed=config.seed, until_seconds=config.duration_seconds)
        return MixedWorkload.of(config)

    def _started(self) -> Running:
        if self._running is None:
            raise RuntimeError("the testbed has not been started")
        return self._running


def _cut_for(config: TestbedConfig, trace: Trace) -> TestbedConfig:
    """The configuration with the trace's blocks, ending no later than the trace does."""
    span_seconds = float(trace.at_ms.max()) / 1000 + 1 if trace.requests else 1.0
    asked = config.duration_seconds
    duration_seconds = span_seconds if asked is None else min(asked, span_seconds)
    return replace(config, block_tokens=trace.block_tokens, duration_seconds=duration_seconds)
