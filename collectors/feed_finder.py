"""Finds exporters as pods, and receives the feed of each for as long as its pod is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, cast

from collectors.complaints import Complaints
from collectors.following import FeedFollower, Receiver
from collectors.kube.kinds import POD
from collectors.kube.objects import Pod
from collectors.kube.state import read_object
from collectors.sharing import Mine, everything
from tierscope.domain.discovery import ExporterPods
from tierscope.domain.errors import TierscopeError
from tierscope.domain.settings import FeedSource

if TYPE_CHECKING:
    from collectors.kube.client import Listed

WHO = "exporters' pods"


class FeedFinder(FeedFollower):
    """Starts a receiver for each exporter that runs, and ends it when its pod is gone or has moved.

    A feed is named after the node its exporter is on, which survives the pod: what the next pod of the
    node publishes goes on after what is stored. A list that cannot be had changes nothing. Names that are
    `taken` by feeds of the settings are left alone.
    """

    def __init__(
        self,
        list_all: Callable[[str], Listed],
        exporters: ExporterPods,
        receive: Callable[[FeedSource], Receiver],
        complaints: Complaints,
        *,
        taken: Collection[str] = (),
        mine: Mine = everything,
    ) -> None:
        super().__init__("feed-finder", receive, complaints, lambda name: name not in taken and mine(name))
        self._list_all = list_all
        self._exporters = exporters

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
