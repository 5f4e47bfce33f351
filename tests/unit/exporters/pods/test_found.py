"""What is read of a pod is what its own arguments and variables say it publishes."""

from __future__ import annotations

import doctest
import json

import pytest

from exporters.pods import addresses
from exporters.pods.found import found_pods, server_of
from exporters.pods.objects import read_pods
from tests.node_pods import EVENTS, HOOK, engine, pod, server
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.units import GIB

INSIDE = {**HOOK, "kv_connector": "ObservingLMCacheConnectorV1"}
BESIDE = {**HOOK, "kv_connector": "ObservingLMCacheMPConnector"}


def found(*pods: dict, **discovery):
    body = json.dumps({"items": list(pods)}).encode()
    return found_pods(read_pods(body, where="the API"), PodDiscovery(**discovery))


def only_engine(*args, **options):
    [one] = found(pod("chat-7d9f8c-x2x4z", engine(*args, **options)))
    [settings] = one.part.engines
    return settings


def test_examples_in_docstrings_hold():
    """What the docstrings show is what happens."""
    assert doctest.testmod(addresses).failed == 0


def test_an_engines_streams_are_where_its_arguments_say():
    """Events and records are read where the engine binds them, at the pod's address."""
    settings = only_engine()

    assert (settings.namespace, settings.endpoint, settings.replica) == ("ns", "chat", "chat-7d9f8c-x2x4z")
    assert settings.metrics_url == "http://10.0.1.7:8000/metrics"
    assert (settings.events_endpoint, settings.events_replay_endpoint) == (
        "tcp://10.0.1.7:5557",
        "tcp://10.0.1.7:5558",
    )
    assert (settings.hook_endpoint, settings.hook_replay_endpoint) == (
        "tcp://10.0.1.7:5757",
        "tcp://10.0.1.7:5857",
    )


def test_what_is_not_switched_on_is_not_read():
    """An engine as it comes has a page and no streams."""
    settings = only_engine(connector=None, events=None)

    assert settings.metrics_url is not None
    assert (settings.events_endpoint, settings.hook_endpoint) == (None, None)


@pytest.mark.parametrize(
    ("options", "hook"),
    [
        ({"TIERSCOPE_PROBE": "0"}, None),
        ({"TIERSCOPE_PROBE_ENDPOINT": "tcp://0.0.0.0:6000"}, "tcp://10.0.1.7:6000"),
        ({"TIERSCOPE_PROBE_ENDPOINT": "tcp://127.0.0.1:6000"}, None),
        ({"TIERSCOPE_PROBE_ENDPOINT": "ipc:///tmp/hook"}, None),
    ],
)
def test_the_probes_own_switches_count(options, hook):
    """Its kill switch, its address, and an address that nobody outside the pod reaches."""
    assert only_engine(**options).hook_endpoint == hook


def test_the_extra_config_wins_over_the_environment():
    """As it does in the probe."""
    told = {**HOOK, "kv_connector_extra_config": {"tierscope": {"endpoint": "tcp://*:7000"}}}

    assert only_engine(connector=told, TIERSCOPE_PROBE_ENDPOINT="tcp://*:6000").hook_endpoint.endswith(
        ":7000"
    )


def test_the_last_connector_of_the_command_line_wins():
    """As in vLLM; that there were two is kept for whoever looks."""
    [one] = found(
        pod("p", engine("--kv-transfer-config", json.dumps(INSIDE), connector={"kv_connector": "X"}))
    )

    assert (one.engine.connector_name, one.engine.connectors_given) == ("X", 2)
    assert one.part.engines[0].hook_endpoint is None


def test_the_scheduler_form_is_a_hook_too():
    """Where no connector is welcome."""
    args = ("--scheduler-cls", "tierscope_probe.scheduler.observing_scheduler")

    assert only_engine(*args, connector=None).hook_endpoint == "tcp://10.0.1.7:5757"


def test_data_parallel_ranks_are_engines_of_their_own():
    """Each publishes at the port of its rank."""
    [one] = found(pod("p", engine("--data-parallel-size", 2)))

    assert [engine.hook_endpoint for engine in one.part.engines] == [
        "tcp://10.0.1.7:5757",
        "tcp://10.0.1.7:5758",
    ]
    assert [engine.events_endpoint for engine in one.part.engines] == [
        "tcp://10.0.1.7:5557",
        "tcp://10.0.1.7:5558",
    ]


def test_a_slip_of_the_pen_opens_no_million_sockets():
    """What no pod has is not believed."""
    [one] = found(pod("p", engine("-dp", 10**9)))

    assert len(one.part.engines) == 64


def test_lmcache_in_the_engine_is_read_as_its_variables_say():
    """Size and chunk of L1, its own pages, the storage hook of each worker, and the pool of the settings."""
    extra = {"remote_storage_plugin.tierscope.module_path": "tierscope_probe.storage_connector"}
    variables = {
        "LMCACHE_MAX_LOCAL_CPU_SIZE": "16", "LMCACHE_CHUNK_SIZE": "256",
        "LMCACHE_EXTRA_CONFIG": json.dumps(extra), "LMCACHE_INTERNAL_API_SERVER_ENABLED": "true",
    }  # fmt: skip
    [one] = found(pod("p", engine("-tp", 2, connector=INSIDE, **variables)), pool="kv", pool_is_scanned=True)
    [inside] = one.part.lmcache_in_process

    assert one.part.engines[0].lmcache == inside.name == "ns/p"
    assert (inside.l1_bytes, inside.chunk_tokens, inside.workers) == (16 * GIB, 256, 2)
    assert inside.urls == ("http://10.0.1.7:7000", "http://10.0.1.7:7001")
    assert inside.storage_endpoints == ("tcp://10.0.1.7:5777", "tcp://10.0.1.7:5778")
    assert inside.storage_replay_endpoints == ("tcp://10.0.1.7:5877", "tcp://10.0.1.7:5878")
    assert (inside.pool, inside.pool_is_scanned) == ("kv", True)


def test_the_operators_own_variables_tell_a_cache_inside():
    """Where no connector is on the command line because the operator adds it."""
    [one] = found(pod("p", engine(connector=None, LMCACHE_MAX_LOCAL_CPU_SIZE="5")))

    assert [inside.name for inside in one.part.lmcache_in_process] == ["ns/p"]


def test_ranks_that_share_variables_have_no_cache_of_their_own():
    """Whose is whose cannot be told, so nothing is said of it."""
    [one] = found(pod("p", engine("-dp", 2, connector=INSIDE)))

    assert one.part.lmcache_in_process == ()


def test_an_engine_loads_from_the_server_of_its_node():
    """It is in a pod of its own; with two of them, whose is whose is not known."""
    node = [pod("chat", engine(connector=BESIDE)), pod("cache", server(), ip="10.0.1.9")]
    one, other = found(*node)
    [settings] = one.part.lmcache

    assert (settings.name, settings.url) == ("ns/cache", "http://10.0.1.9:8080")
    assert settings.records_endpoint == "tcp://10.0.1.9:5767"
    assert server_of(other, [one, other]) == "ns/cache"
    assert server_of(one, [one, other]) is None
    two = found(*node, pod("cache-2", server()))
    assert server_of(two[-1], two) is None


def test_the_pods_own_server_comes_first():
    """Engine and server in one pod belong together."""
    found_now = found(pod("both", engine(connector=BESIDE), server()), pod("cache", server()))

    assert server_of(found_now[0], found_now) == "ns/both"


@pytest.mark.parametrize(
    "other",
    [
        pod("proxy", {"name": "nginx", "image": "example/nginx"}),
        pod("late", engine(), phase="Pending"),
        pod("over", engine(), phase="Succeeded"),
        pod("nowhere", engine(), ip=None),
        {"metadata": {"uid": "1", "name": "bare", "namespace": "ns", "labels": None}},
    ],
    ids=lambda one: one["metadata"]["name"],
)
def test_pods_with_nothing_to_read_are_passed_over(other):
    """Not ours, not yet, not any more."""
    assert found(other) == []


def test_a_label_names_the_endpoint():
    """For pods whose Deployment is not named after it."""
    [one] = found(pod("p", engine(), labels={"tierscope.io/endpoint": "support"}))

    assert one.part.engines[0].endpoint == "support"


def test_ipv6_addresses_are_bracketed():
    """As they are before a port."""
    [one] = found(pod("p", engine(), ip="fd00::7"))

    assert one.part.engines[0].hook_endpoint == "tcp://[fd00::7]:5757"


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"items": 3}', b'{"items": [{}]}', b"\xff"])
def test_what_is_no_list_of_pods_is_refused(body):
    """And not taken for an empty node."""
    with pytest.raises(SourceUnreadable, match="pods cannot be read"):
        read_pods(body, where="the API")


def test_events_without_replay_have_none():
    """VLLM has no replay unless it is asked for."""
    events = {name: value for name, value in EVENTS.items() if name != "replay_endpoint"}

    assert only_engine(events=events).events_replay_endpoint is None


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-1", "1e999", "70000", "[" * 100_000], ids=lambda text: text[:5]
)
def test_no_word_of_one_pod_keeps_another_from_being_found(text):
    """Whatever stands in its variables and arguments, it is read at addresses there can be, or not."""
    variables = (
        "LMCACHE_MAX_LOCAL_CPU_SIZE", "LMCACHE_CHUNK_SIZE", "LMCACHE_EXTRA_CONFIG",
        "LMCACHE_INTERNAL_API_SERVER_PORT_START",
    )  # fmt: skip
    told = dict.fromkeys(variables, text) | {"LMCACHE_INTERNAL_API_SERVER_ENABLED": "true"}
    odd = pod("odd-0", engine("--port", text, "--http-port", text, connector=INSIDE, **told), uid="odd")
    seen = found(odd, pod("chat-0", engine()))

    assert [one.name for one in seen] == ["ns/chat-0", "ns/odd-0"]
    assert seen[1].part.engines[0].metrics_url == "http://10.0.1.7:8000/metrics"


def test_ranks_beyond_the_last_port_are_not_read():
    """There is no port 65536 to listen at."""
    [one] = found(pod("chat-0", engine("-dp", "2", events={**EVENTS, "endpoint": "tcp://*:65535"})))

    assert [each.events_endpoint for each in one.part.engines] == ["tcp://10.0.1.7:65535", None]


@pytest.mark.parametrize("ip", ["elsewhere.example/", "//", "10.0.1", ""])
def test_a_pod_without_an_address_is_not_read(ip):
    """What is no address would be read as part of a URL, and somebody else asked."""
    assert not found(pod("chat-0", engine(), ip=ip))
