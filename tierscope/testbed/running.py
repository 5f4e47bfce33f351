"""A testbed in motion: the thread that lets virtual time pass, and all that is bound to addresses."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import reduce
from operator import add

import zmq

from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.testbed.clock import VirtualClock
from tierscope.testbed.config import Faults, Incident, TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.replica import Replica
from tierscope.testbed.sites import Sites
from tierscope.testbed.wire.pages import PageServer
from tierscope.testbed.wire.tally import Tally
from tierscope.testbed.workload.request import Workload

TICK_MILLISECONDS = 20
"""Wall time between two looks at the clock."""


class Running:
    """Advances the model in whole steps of virtual time, sends what each step brought, answers replays.

    The model moves only under the lock, so a page shows the end of a step, never half of one. The
    sockets of the streams belong to this thread.
    """

    def __init__(
        self,
        config: TestbedConfig,
        workload: Workload,
        clock: VirtualClock,
        *,
        epoch_unix_seconds: float,
        monotonic: Callable[[], float],
        faults: Callable[[], Faults],
        tally: Callable[[], Tally],
    ) -> None:
        self.finished = threading.Event()
        self.epoch_unix_seconds = epoch_unix_seconds
        self._config = config
        self._clock = clock
        self._monotonic = monotonic
        self._faults = faults
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._restarts: deque[int] = deque()
        self._incidents: deque[Incident] = deque()
        self._steps = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.replicas = [
            Replica(config, index, self._context, epoch_unix_seconds=epoch_unix_seconds, tally=tally())
            for index in range(config.replicas)
        ]
        self.fleet = Fleet(
            config,
            workload,
            observe=lambda index: self.replicas[index].records,
            watch=lambda index: self.replicas[index].cache_records if config.cache_probe else None,
            restarted=lambda index: self.replicas[index].restart(self.fleet.schedule.now_seconds),
        )
        sites = Sites(
            config,
            self.fleet,
            self.replicas,
            epoch_unix_seconds=epoch_unix_seconds,
            lock=self._lock,
            faults=faults,
            port_of=lambda name: self.pages.port(name),  # noqa: PLW0108 - there are none yet
        )
        self.pages = PageServer(sites.all(), faults=faults)
        self._began_seconds = monotonic()
        self._thread = threading.Thread(target=self._run, name="testbed", daemon=True)
        self._thread.start()

    def sent(self) -> TokenSplit:
        """Tokens of every counted request whose records went out."""
        with self._lock:
            self._raise_failure()
            return reduce(add, (replica.tally.tokens for replica in self.replicas), NO_TOKENS)

    def now(self) -> tuple[float, int]:
        """Virtual seconds since the virtual start, and requests so far."""
        with self._lock:
            self._raise_failure()
            return self.fleet.schedule.now_seconds, self.fleet.requests

    def now_unix_seconds(self) -> float:
        """Virtual unix time, as smooth as the wall's."""
        wall_seconds = self._monotonic() - self._began_seconds
        return self.epoch_unix_seconds + self._clock.virtual_seconds(wall_seconds)

    def restart(self, replica: int) -> None:
        """Restart an engine at the end of the running step."""
        self._restarts.append(replica)

    def befall(self, incident: Incident) -> None:
        """Let an incident change the deployment at the end of the running step."""
        self._incidents.append(incident)

    def close(self) -> None:
        """End the threads and close every socket."""
        self._stopping.set()
        self._thread.join()
        self.pages.close()
        for replica in self.replicas:
            replica.close()
        self._context.term()

    def _run(self) -> None:
        try:
            self._keep_up()
        except Exception as error:  # noqa: BLE001 - told to whoever asks next
            self._failure = error
            self.finished.set()

    def _keep_up(self) -> None:
        poller = zmq.Poller()
        streams = [channel.stream for replica in self.replicas for channel in replica.channels]
        for stream in streams:
            poller.register(stream.router, zmq.POLLIN)
        while not self._stopping.is_set():
            wall_seconds = self._monotonic() - self._began_seconds
            behind = self._advance(wall_seconds)
            for router, _ in poller.poll(0 if behind else TICK_MILLISECONDS):
                next(stream for stream in streams if stream.router is router).serve_replay()

    def _advance(self, wall_seconds: float) -> bool:
        """Take one step if one is due; whether another is."""
        due = int(self._clock.virtual_seconds(wall_seconds) / self._config.step_seconds) - self._steps
        with self._lock:
            while self._restarts:
                self.fleet.restart(self._restarts.popleft())
            while self._incidents:
                self.fleet.befall(self._incidents.popleft())
            if due > 0 and not self.fleet.finished:
                self._step(wall_seconds)
            for replica in self.replicas:
                replica.send_due(wall_seconds, self._faults())
            if self.fleet.finished and all(replica.empty for replica in self.replicas):
                self.finished.set()
                return False
        return due > 1

    def _step(self, wall_seconds: float) -> None:
        self._steps += 1
        now_seconds = self._steps * self._config.step_seconds
        self.fleet.run_until(now_seconds)
        for replica, engine in zip(self.replicas, self.fleet.engines, strict=True):
            replica.end_step(engine, now_seconds, wall_seconds, self._faults())

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise RuntimeError("the testbed's model failed") from self._failure
