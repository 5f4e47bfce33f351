"""Finds exporters as pods, and receives the feed of each for as long as its pod is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from collectors.complaints import Complaints
from collectors.kube.kinds import POD
from collectors.kube.objects import Pod
from collectors.kube.state import read_object
from collectors.worker import Worker
from tierscope.domain.discovery import ExporterPods
from tierscope.domain.errors import TierscopeError
from tierscope.domain.settings import FeedSource
from tierscope.registry.types import Sample

if TYPE_CHECKING:
    from collectors.feeds import FeedReceiver
    from collectors.kube.client import Listed

WHO = "exporters' pods"


class FeedFinder(Worker):
    """Starts a receiver for each exporter that runs, and ends it when its pod is gone or has moved.

    A feed is named after the node its exporter is on, which survives the pod: what the next pod of the
    node publishes goes on after what is stored. A list that cannot be had changes nothing. Names that are
    `taken` by feeds of the settings are left alone.
    """

    def __init__(
        self,
        list_all: Callable[[str], Listed],
        exporters: ExporterPods,
        receive: Callable[[FeedSource], FeedReceiver],
        complaints: Complaints,
        *,
        taken: Collection[str] = (),
    ) -> None:
        super().__init__("feed-finder")
        self._list_all = list_all
        self._exporters = exporters
        self._receive = receive
        self._complaints = complaints
        self._taken = taken
        self._open: Mapping[str, tuple[FeedSource, FeedReceiver]] = {}

    def stop(self) -> None:
        """Ask it to end, and its receivers with it."""
        super().stop()
        for _, receiver in self._open.values():
            receiver.stop()

    def join(self) -> None:
        """Wait until it and its receivers have ended."""
        super().join()
        for _, receiver in self._open.values():
            receiver.stop()
            receiver.join()

    @property
    def alive(self) -> bool:
        """Whether its thread and those of its receivers run."""
        return super().alive and all(receiver.alive for _, receiver in self._open.values())

    def samples(self) -> Iterator[Sample]:
        """Yield the series of every feed found."""
        for _, receiver in self._open.values():
            yield from receiver.samples()

    def _run(self) -> None:
        path = POD.path(self._exporters.namespace)
        while not self._stopping.is_set():
            try:
                items = self._list_all(path).items
                pods = [cast("Pod", read_object(POD, item, path)) for item in items]
                self._follow(feeds_of(pods, self._exporters))
            except TierscopeError as error:
                self._complaints.say(WHO, error)
            else:
                self._complaints.over(WHO)
            self._stopping.wait(self._exporters.find_seconds)

    def _follow(self, feeds: Iterable[FeedSource]) -> None:
        """Receive these, and no others."""
        wanted = {feed.name: feed for feed in feeds if feed.name not in self._taken}
        for name, (feed, _) in list(self._open.items()):
            if wanted.get(name) != feed:
                self._leave(name)
        for name, feed in wanted.items():
            if name not in self._open and not self._stopping.is_set():
                receiver = self._receive(feed)
                receiver.start()
                self._open = {**self._open, name: (feed, receiver)}

    def _leave(self, name: str) -> None:
        _, receiver = self._open[name]
        self._open = {key: value for key, value in self._open.items() if key != name}
        receiver.stop()
        receiver.join()
        self._complaints.over(str(receiver.source))


def feeds_of(pods: Iterable[Pod], exporters: ExporterPods) -> list[FeedSource]:
    """The feeds of exporters that run, by node; of two on one node that which is not being deleted."""
    found: dict[str, FeedSource] = {}
    ours = [pod for pod in pods if pod.metadata.labels.get(exporters.label) == exporters.label_value]
    for pod in sorted(ours, key=lambda pod: (pod.metadata.deletion_timestamp is not None, pod.metadata.name)):
        address, node = pod.status.pod_ip, pod.spec.node_name
        if pod.status.phase == "Running" and address and node:
            host = f"[{address}]" if ":" in address else address
            feed = FeedSource(
                name=node,
                endpoint=f"tcp://{host}:{exporters.feed_port}",
                replay_endpoint=f"tcp://{host}:{exporters.feed_replay_port}",
            )
            found.setdefault(node, feed)
    return list(found.values())
