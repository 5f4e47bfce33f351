"""The demo's processes: testbed in this one, exporter and API as children; and how their sums are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tierscope.cli.demo_sums import DemoResult, Sums, read_result, read_sums
from tierscope.cli.output import stderr
from tierscope.cli.processes import Child, StopRequest
from tierscope.cli.settings_file import write_settings
from tierscope.domain.errors import TierscopeError
from tierscope.domain.settings import CollectorSettings, ExporterSettings, FeedSource, Settings
from tierscope.domain.trace import Trace
from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.testbed import Testbed

EXPORTER_NAME = "demo"
POLL_SECONDS = 1.0
ADVISE_SECONDS = 5.0
BUSY_RATIO = 0.35
MOST_REPLICAS = 16
DRAIN_SECONDS = 60.0
"""How long the pipeline may take to catch up after the last request."""
ADVICE_SECONDS = 240.0
"""How long advice on all of it may take: its first comparison of routers compiles the simulator."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the person asked for; `duration_seconds` of their time, whatever span of traffic that holds."""

    trace: Trace | None
    duration_seconds: float
    seed: int
    replicas: int | None
    otlp_endpoint: str | None


class DemoRun:
    """A running demo; leaving the `with` block stops every process it started.

    Entering raises `Stopped` when the person stops it before everything is up.
    """

    def __init__(self, options: DemoOptions, folder: Path, stop: StopRequest) -> None:
        self._options = options
        self._folder = folder
        self._stop = stop
        self._cleanup = ExitStack()
        self.urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:  # undone at once if a later step fails
            self.testbed = Testbed(testbed_config(self._options), self._options.trace)
            cleanup.callback(self.testbed.stop)
            self.testbed.start()
            exporter = self._child(cleanup, "export", Settings(exporter=self._exporter_settings()))
            server = self._child(cleanup, "serve", self._server_settings(exporter.addresses))
            self.urls = {
                "metrics": exporter.addresses["metrics_url"],
                "api": server.addresses["api"],
                "report": server.addresses["report"],
                "docs": server.addresses["docs"],
            }
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def _child(self, cleanup: ExitStack, command: str, settings: Settings) -> Child:
        path = self._folder / f"{command}.yaml"
        write_settings(settings, path)
        child = Child([command, "--config", str(path)], stop=self._stop)
        cleanup.callback(child.stop)
        return child

    def _exporter_settings(self) -> ExporterSettings:
        return replace(
            self.testbed.settings(),
            name=EXPORTER_NAME,
            poll_seconds=POLL_SECONDS,
            otlp_endpoint=self._options.otlp_endpoint,
            page_state_file=str(self._folder / "page.json"),  # the traffic began before the exporter
        )

    def _server_settings(self, exporter: dict[str, str]) -> Settings:
        feed = FeedSource(
            name=EXPORTER_NAME,
            endpoint=exporter["feed_endpoint"],
            replay_endpoint=exporter["feed_replay_endpoint"],
        )
        return Settings(
            collector=CollectorSettings(
                store_path=str(self._folder / "demo.duckdb"),
                feeds=(feed,),
                advise_seconds=ADVISE_SECONDS,
                deployments=(self.testbed.deployment(),),
            )
        )

    def until_advice(self, stop: StopRequest) -> DemoResult | None:
        """Wait for the traffic, for the pipeline to catch up, and for advice on all of it.

        Returns None if the person stopped it before. What is late after `DRAIN_SECONDS`, or advice after
        `ADVICE_SECONDS`, is shown as it stands: sums that differ are the demo's finding, not its failure.
        """
        if not self._until_traffic_is_over(stop):
            return None
        ended_unix_seconds = time.time()
        deployment = self.testbed.deployment()
        last: list[Sums] = []

        def caught_up() -> bool:
            last[:] = [read_sums(self.urls, deployment, sent=self.testbed.sent())]
            return last[0].equal

        def advised() -> bool:
            result = read_result(self.urls, deployment, last[0])
            return result is not None and result.advised_unix_seconds >= ended_unix_seconds

        if not _poll(caught_up, stop, seconds=DRAIN_SECONDS) and stop.is_set:
            return None
        with stderr.status("computing advice; the first time on a machine takes a minute more"):
            if not _poll(advised, stop, seconds=ADVICE_SECONDS) and stop.is_set:
                return None
        return read_result(self.urls, deployment, last[0])

    def _until_traffic_is_over(self, stop: StopRequest) -> bool:
        with _progress_bar() as bar:
            task = bar.add_task("traffic", total=1.0)
            while not self.testbed.finished:
                if stop.wait(0.2):
                    return False
                bar.update(task, completed=self.testbed.progress().share or 0.0)
        return True


def testbed_config(options: DemoOptions) -> TestbedConfig:
    """Set the testbed's clock and size so that its traffic takes as long as the person asked for."""
    # The engines do not say which tier served a load: the probes in the cache servers do.
    config = TestbedConfig(seed=options.seed, tier_split=False)
    if options.trace is None:
        span_seconds, replicas = config.history_seconds, config.replicas
    else:
        span_seconds = max(1.0, float(options.trace.at_ms[-1] - options.trace.at_ms[0]) / 1000)
        replicas = _enough_replicas(options.trace, span_seconds, config)
    return replace(
        config,
        replicas=options.replicas or replicas,
        duration_seconds=span_seconds,
        speed=max(1.0, span_seconds / options.duration_seconds),
    )


def _enough_replicas(trace: Trace, span_seconds: float, config: TestbedConfig) -> int:
    """Engines that would not queue for long even if no prompt token were cached."""
    busy_seconds = float(trace.input_tokens.sum()) * config.service.prefill_seconds_per_token
    return min(MOST_REPLICAS, max(config.replicas, round(busy_seconds / span_seconds / BUSY_RATIO)))


def _poll(condition: Callable[[], bool], stop: StopRequest, *, seconds: float) -> bool:
    """Ask again and again until it holds, the time is over, or the person stops us."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return True
        except TierscopeError as error:  # a process that restarts does not answer for a moment
            if time.monotonic() >= deadline:
                raise
            stderr.print(error.one_line(), style="dim", markup=False)
        if time.monotonic() >= deadline or stop.wait(0.25):
            return False


def _progress_bar() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal)
