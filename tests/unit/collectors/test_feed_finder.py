"""Exporters found as pods: whose feeds are received, and under which name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from collectors.complaints import Complaints
from collectors.feed_finder import FeedFinder
from collectors.kube.client import Listed
from tests.exporting import await_true
from tierscope.domain.discovery import ExporterPods
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.identity import SourceId, SourceKind

EXPORTERS = ExporterPods(namespace="tierscope", find_seconds=0.01)


def pod(name, node, ip, *, component="exporter", phase="Running", **metadata):
    return {
        "metadata": {
            "name": name,
            "namespace": "tierscope",
            "labels": {"app.kubernetes.io/component": component},
            **metadata,
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "podIP": ip},
    }


class Receiver:
    """A feed's receiver that remembers what became of it."""

    def __init__(self, feed) -> None:
        self.feed = feed
        self.source = SourceId(SourceKind.FEED, feed.name)
        self.alive = True
        self.did: list[str] = []

    def start(self) -> None:
        self.did.append("start")

    def stop(self) -> None:
        self.did.append("stop")

    def join(self) -> None:
        self.did.append("join")

    def samples(self):
        yield SimpleNamespace(name=self.feed.name)


class Cluster:
    """What the API lists; None: it does not answer."""

    def __init__(self, *pods) -> None:
        self.pods: tuple | None = pods
        self.looks = 0

    def list_all(self, path):
        self.looks += 1
        assert path == "/api/v1/namespaces/tierscope/pods"
        if self.pods is None:
            raise SourceUnreadable("it does not answer", where="there", fix="wait")
        return Listed(self.pods, "1")


@pytest.fixture
def finding():
    started = []

    def start(*pods, **options):
        cluster, receivers = Cluster(*pods), []

        def receive(feed):
            receivers.append(Receiver(feed))
            return receivers[-1]

        finder = FeedFinder(cluster.list_all, EXPORTERS, receive, Complaints(lambda: 0.0), **options)
        finder.start()
        started.append(finder)
        return finder, cluster, receivers

    yield start
    for finder in started:
        finder.stop()
        finder.join()


def looked_again(cluster):
    looks = cluster.looks
    await_true(lambda: cluster.looks > looks + 1, "it looked again")


def test_each_running_exporter_is_received_under_its_nodes_name(finding):
    """Pods of other parts, and those that do not run yet, are none."""
    finder, cluster, receivers = finding(
        pod("x-1", "node-a", "10.0.0.1"),
        pod("x-2", "node-b", "fd00::2"),
        pod("collector-0", "node-a", "10.0.0.3", component="collector"),
        pod("x-3", "node-c", None, phase="Pending"),
    )
    looked_again(cluster)

    assert [(one.feed.name, one.feed.endpoint, one.feed.replay_endpoint) for one in receivers] == [
        ("node-a", "tcp://10.0.0.1:5777", "tcp://10.0.0.1:5877"),
        ("node-b", "tcp://[fd00::2]:5777", "tcp://[fd00::2]:5877"),
    ]
    assert [sample.name for sample in finder.samples()] == ["node-a", "node-b"]
    assert finder.alive


def test_a_pod_that_moved_is_received_anew_under_the_same_name(finding):
    """The old receiver has ended before the new one begins, so what is stored is where it goes on."""
    _, cluster, receivers = finding(pod("x-1", "node-a", "10.0.0.1"))
    looked_again(cluster)
    cluster.pods = (
        pod("x-1", "node-a", "10.0.0.1", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("x-9", "node-a", "10.0.0.9"),
    )
    await_true(lambda: len(receivers) == 2, "the new pod is received")
    looked_again(cluster)

    assert receivers[0].did == ["start", "stop", "join"]
    assert (receivers[1].feed.name, receivers[1].feed.endpoint) == ("node-a", "tcp://10.0.0.9:5777")
    assert len(receivers) == 2


def test_a_list_that_cannot_be_had_changes_nothing(finding):
    """Feeds go on; a pod that is gone is let go at the next list."""
    finder, cluster, receivers = finding(pod("x-1", "node-a", "10.0.0.1"))
    looked_again(cluster)
    cluster.pods = None
    looked_again(cluster)
    assert receivers[0].did == ["start"]
    cluster.pods = ()
    await_true(lambda: receivers[0].did == ["start", "stop", "join"], "the feed is let go")

    assert list(finder.samples()) == []


def test_a_name_of_the_settings_is_left_alone(finding):
    """A feed is received once."""
    _, cluster, receivers = finding(pod("x-1", "node-a", "10.0.0.1"), taken={"node-a"})
    looked_again(cluster)

    assert receivers == []
