"""A running exporter whose node's pods come, are replaced, and go."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from exporters.owners import KEEP_SECONDS
from exporters.process import Exporter, named_after_node
from tests.captured import hook_payloads
from tests.exporting import Scrape, await_true, first_feed_batches
from tests.node_pods import HOOK, PodApi, engine, pod
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.requests import RequestRecord
from tierscope.domain.settings import ExporterSettings
from tierscope.feed.stream_publisher import StreamPublisher
from tierscope.registry import metrics

ANY = "tcp://127.0.0.1:*"


@pytest.fixture
def api(opened, tmp_path):
    api = opened.enter_context(PodApi())
    (tmp_path / "token").write_text(api.token)
    return api


@pytest.fixture
def leaps():
    """Seconds by which the exporter's clock of intervals is ahead of what it was."""
    return []


@pytest.fixture
def exporter(opened, api, tmp_path, leaps):
    pods = PodDiscovery(
        node="node-a", api_url=api.url, service_account_folder=str(tmp_path), find_seconds=0.05
    )
    state = str(tmp_path / "page.json")  # with it, what was recorded long ago is counted, once
    settings = ExporterSettings(
        name="test", pods=pods, poll_seconds=0.05, timeout_seconds=0.3, page_state_file=state
    )
    return opened.enter_context(Exporter(settings, monotonic=lambda: time.monotonic() + sum(leaps)))


def scrape(exporter):
    return Scrape(exporter.addresses.metrics_url)


def up(exporter):
    return scrape(exporter).sums(metrics.SOURCE_UP, "source")


def publishing(opened, name, uid=None):
    """An engine that publishes its records on loopback, and the pod it is in."""
    publisher = opened.enter_context(closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 26)))
    at = {"endpoint": publisher.endpoint, "replay_endpoint": publisher.replay_endpoint}
    told = {**HOOK, "kv_connector_extra_config": {"tierscope": at}}
    return publisher, pod(name, engine("--port", 1, connector=told, events=None), ip="127.0.0.1", uid=uid)


def test_an_engine_is_read_from_when_its_pod_runs_until_it_is_gone(exporter, api, opened, captures, leaps):
    """Its sums stay when it goes, for a while; what it said of the present does not; the next pod is read."""
    publisher, first = publishing(opened, "chat-1")
    for payload in hook_payloads(captures / "observer" / "a_alone"):
        publisher.publish(payload)
    api.pods = [first]
    hook = "vllm_hook:ns/chat/chat-1/0"
    await_true(lambda: up(exporter).get(hook) == 1, "the pod's hook is read")
    await_true(lambda: scrape(exporter).split(metrics.REQUEST_TOKENS).prompt > 0, "its records are counted")
    await_true(
        lambda: (
            scrape(exporter).sums(metrics.SOURCE_MESSAGES, "result", source=hook).get("received", 0)
            == len(hook_payloads(captures / "observer" / "a_alone"))
        ),
        "all of them",
    )
    before = scrape(exporter).split(metrics.REQUEST_TOKENS)
    _, second = publishing(opened, "chat-2")
    api.pods = [second]
    await_true(lambda: hook not in up(exporter), "the pod that is gone is not shown")
    await_true(lambda: up(exporter).get("vllm_hook:ns/chat/chat-2/0") == 1, "the next one is read")

    assert scrape(exporter).split(metrics.REQUEST_TOKENS) == before
    leaps.append(KEEP_SECONDS)
    await_true(lambda: scrape(exporter).sums(metrics.REQUESTS, "replica") == {}, "its sums are gone, too")
    assert scrape(exporter).sums(metrics.FEED_BATCHES)[()] > 0


def test_a_pod_that_came_back_elsewhere_is_read_there(exporter, api, opened):
    """A sandbox that is made anew keeps the pod's uid, and has another address."""
    _, first = publishing(opened, "chat-1", uid="same")
    api.pods = [first]
    hook = "vllm_hook:ns/chat/chat-1/0"
    await_true(lambda: up(exporter).get(hook) == 1, "the pod's hook is read")
    publisher, again = publishing(opened, "chat-1", uid="same")
    api.pods = [again]

    def comes() -> bool:
        publisher.publish(b"x")
        return scrape(exporter).sums(metrics.SOURCE_MESSAGES, "result", source=hook).get("undecodable", 0) > 0

    await_true(comes, "what it says at its new address is read")


def test_an_api_that_fails_takes_nothing_away(exporter, api, opened):
    """What was found before is read on, and the page says that the list is old."""
    _, there = publishing(opened, "chat-1")
    api.pods = [there]
    await_true(lambda: up(exporter).get("vllm_hook:ns/chat/chat-1/0") == 1, "the pod is read")
    api.token = "another"

    await_true(
        lambda: scrape(exporter).sums(metrics.KUBE_WATCH_UP, "resource") == {"pods": 0}, "the list is old"
    )
    assert up(exporter)["vllm_hook:ns/chat/chat-1/0"] == 1


def test_an_exporter_without_a_name_has_its_nodes():
    """One file of settings serves every node, and a collector can tell their feeds apart."""
    pods = PodDiscovery(node="node-a")

    assert named_after_node(ExporterSettings(pods=pods)).name == "node-a"
    assert named_after_node(ExporterSettings(pods=pods, name="mine")).name == "mine"
    assert named_after_node(ExporterSettings()).name == "exporter"


def test_records_are_told_once(exporter, api, opened, captures):
    """Looking again at a pod that is read already opens nothing anew."""
    publisher, there = publishing(opened, "chat-1")
    api.pods = [there]
    payloads = hook_payloads(captures / "observer" / "a_alone")
    for payload in payloads:
        publisher.publish(payload)
    await_true(
        lambda: (
            scrape(exporter)
            .sums(metrics.SOURCE_MESSAGES, "result", source="vllm_hook:ns/chat/chat-1/0")
            .get("received", 0)
            == len(payloads)
        ),
        "all records are read",
    )
    looks = len(api.asked)
    await_true(lambda: len(api.asked) > looks + 3, "the pods are listed again")

    entries = [entry for batch in first_feed_batches(exporter, 1) for entry in batch.entries]
    ids = [(entry.request_id, entry.attempt) for entry in entries if isinstance(entry, RequestRecord)]
    assert len(ids) == len(set(ids))
