"""Finds the pods of the exporter's node, and reads what is in them for as long as they are there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from exporters.oddities import Repeats
from exporters.pods.found import FoundPod, found_pods, server_of
from exporters.pods.objects import NodePod
from exporters.sources import Shared, Sources
from exporters.wiring import engine_id
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import SourceUnreadable, TierscopeError
from tierscope.domain.settings import ExporterSettings
from tierscope.domain.worker import Worker
from tierscope.registry.metrics import KUBE_WATCH_UP
from tierscope.registry.types import Sample

log = logging.getLogger(__name__)


class Lister(Protocol):
    """Who lists the pods of this node."""

    def list_pods(self) -> Sequence[NodePod]:
        """Every pod of the node; raises `SourceUnreadable`."""

    def close(self) -> None:
        """Free the connections."""


class PodFinder(Worker):
    """Opens the sources of a pod when it is first seen running and closes them when it is gone.

    A list that cannot be had changes nothing: what was found before is read on. What a pod counted stays on
    the exporter's page until it was scraped; what it said of the present goes with it. `settings` are the
    exporter's, whose pace and address the pods' sources have too.
    """

    def __init__(
        self, lister: Lister, settings: ExporterSettings, discovery: PodDiscovery, shared: Shared
    ) -> None:
        super().__init__("pods")
        self._lister = lister
        self._settings = settings
        self._discovery = discovery
        self._shared = shared
        self._open: Mapping[str, tuple[FoundPod, Sources]] = {}
        self._is_up = False
        self._repeats = Repeats(shared.desk.monotonic)

    def stop(self) -> None:
        """Ask it to end, and every pod's threads with it."""
        super().stop()
        for _, sources in self._open.values():
            sources.stop()

    def join(self) -> None:
        """Wait until it has ended, and close every pod's sources."""
        super().join()
        for _, sources in self._open.values():
            sources.close()
        self._lister.close()

    def samples(self) -> Iterator[Sample]:
        """Yield whether the node's pods are known, and the series of every pod's sources."""
        yield Sample(KUBE_WATCH_UP, ("pods",), int(self._is_up))
        for _, sources in self._open.values():
            yield from sources.samples()

    def tell_coverage(self) -> None:
        """Publish how much of each pod's sources came since this was last told."""
        for _, sources in self._open.values():
            sources.tell_coverage()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                pods = found_pods(self._lister.list_pods(), self._discovery)
            except SourceUnreadable as error:
                self._is_up = False
                if self._repeats.due("list"):
                    log.warning("pods: %s", error.one_line())
            else:
                self._follow(pods)
                self._is_up = True
            self._stopping.wait(self._discovery.find_seconds)

    def _follow(self, pods: Sequence[FoundPod]) -> None:
        """Make what is read that which is there."""
        there = {pod.uid: pod for pod in pods}
        for uid, (pod, _) in self._open.items():
            if uid not in there or there[uid].part != pod.part:  # a new sandbox has another address
                self._leave(uid)
        for uid, pod in there.items():
            if uid not in self._open and not self._stopping.is_set():
                self._join_in(pod)
        for pod, _ in self._open.values():
            server = server_of(pod, pods)
            for engine in pod.part.engines:
                self._shared.engines.loads_from(engine_id(engine), engine.lmcache or server)

    def _join_in(self, pod: FoundPod) -> None:
        settings = self._settings
        part = replace(
            pod.part,
            listen_host=settings.listen_host,
            poll_seconds=settings.poll_seconds,
            timeout_seconds=settings.timeout_seconds,
        )
        sources = Sources(part, self._shared)
        try:
            sources.start()
        except TierscopeError as error:
            if self._repeats.due(pod.uid):
                log.warning("pod %s: %s", pod.name, error.one_line())
            return
        self._open = {**self._open, pod.uid: (pod, sources)}
        log.info("pod %s: is read", pod.name)

    def _leave(self, uid: str) -> None:
        pod, sources = self._open[uid]
        self._open = {key: value for key, value in self._open.items() if key != uid}
        sources.close()
        sources.forget()
        self._repeats.forget(uid)
        log.info("pod %s: is read no more", pod.name)
