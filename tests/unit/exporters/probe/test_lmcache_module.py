"""The module of an LMCache server: its settings, its lifetime, and what it never does."""

from __future__ import annotations

import json
import time

import msgspec
import pytest

from tests.fake_lmcache import FORBIDDEN, NAMES, EventType, FakeBus, build_context, event, recorded_events
from tierscope.feed.messages import Message
from tierscope.feed.stream_subscriber import StreamSubscriber
from tierscope_probe import lmcache_module
from tierscope_probe.lmcache_module import STATUS_KEY, build_server_modules, module_settings
from tierscope_probe.lmcache_records import RECORDS

SECONDS = 20
ANY = "tcp://127.0.0.1:*"


class Server:
    """A server with the module in it, and a reader of its records."""

    def __init__(self, folder, **config: object) -> None:
        self.bus = FakeBus()
        self._file = folder / "addresses.json"
        given = {"endpoint": ANY, "replay_endpoint": ANY, "address_file": str(self._file), **config}
        self.module = build_server_modules(build_context(self.bus, **given))
        self._reader: StreamSubscriber | None = None

    def read_until(self, *kinds: str) -> list[dict]:
        """Read records from the beginning until each of these kinds came."""
        deadline = time.monotonic() + SECONDS
        while not self._file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._reader is None:
            where = json.loads(self._file.read_text())
            self._reader = StreamSubscriber(where["endpoint"], where["replay_endpoint"], source="test")
        records: list[dict] = []
        while not set(kinds) <= {record["t"] for record in records}:
            items = self._reader.receive(SECONDS)
            assert items, f"of {kinds} only {records} came"
            for item in items:
                assert isinstance(item, Message)
                records += msgspec.msgpack.decode(item.payload)
        return records

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self.module is not None:
            self.module.close()


@pytest.fixture
def server(tmp_path, fake_vllm):
    """Return a maker of servers that are closed in the end; LMCache's one module we ask for is a fake."""
    fake_vllm("lmcache.v1.mp_observability.event", EventType=EventType)
    servers: list[Server] = []

    def make(**config: object) -> Server:
        servers.append(Server(tmp_path, **config))
        return servers[-1]

    yield make
    for each in servers:
        each.close()


def test_records_of_a_servers_life_arrive(server, captures):
    """The greeting first, then what the events make, over the wire; nothing with a token id is asked for."""
    here = server()
    for each in recorded_events(captures / "lmcache/mp_pull/events.jsonl"):
        here.bus.publish(each)
    here.bus.publish(event("l2.keys.evicted", key_count=1))

    records = here.read_until("l2_evicted")

    hello = records[0]
    assert tuple(hello) == ("t", *RECORDS["hello"])
    assert (hello["server"], hello["chunk_size"], hello["missing"]) == ("server-1", 64, [])
    assert sum(record["t"] == "lookup" for record in records) == 37
    assert not {EventType(name) for name in FORBIDDEN} & here.bus.callbacks.keys()


def test_chains_travel_as_deltas_and_chunks_do_not(server):
    """A later prompt names what it shares; sets of chunks are no chains."""
    here = server()
    hashes = [b"%032d" % number for number in range(3)]
    for session, count in (("r1", 2), ("r2", 3)):
        here.bus.publish(event("mp.lookup", 1.0, session, chunk_hashes=hashes[:count], seq_len=1))
        answer = {"model_name": "tiny", "requested_tokens": 0, "hit_tokens": 0}
        here.bus.publish(event("mp.lookup_prefetch.end", 2.0, session, **answer))
    here.bus.publish(event("l2.keys.evicted", key_count=1))

    first, second = [each["hashes"] for each in here.read_until("l2_evicted") if each["t"] == "lookup"]

    assert first == [each[-8:] for each in hashes[:2]]
    assert second == {"from": 2, "anchor": hashes[1][-8:], "new": [hashes[2][-8:]]}


def test_statistics_tell_our_drops_and_the_buses(server):
    """Both lose records for good, so both are watched; the server's status says the same."""
    here = server()
    here.bus.dropped = 3
    here.bus.publish(event("mp.request.end"))

    stats = next(record for record in here.read_until("stats") if record["t"] == "stats")

    assert tuple(stats) == ("t", *RECORDS["stats"])
    assert (stats["bus_dropped"], stats["dropped"], stats["errors"]) == (3, 0, 0)
    assert here.module.report_status()[STATUS_KEY]["events"] == 1


def test_a_full_queue_drops_and_counts(server, monkeypatch):
    """The bus's thread never waits."""
    monkeypatch.setattr(lmcache_module.Sender, "start", lambda _: None)
    here = server(queue_records=2)

    for _ in range(5):
        here.bus.publish(event("mp.request.end"))

    assert here.module.report_status()[STATUS_KEY]["dropped"] == 3


def test_the_end_of_the_bus_sends_what_waits(server):
    """A departure without its reason yet is told; closing again does nothing."""
    here = server()
    here.read_until("hello")
    here.bus.publish(event("l1.keys.evicted", 1.0, l1_tag="", keys=[], meta=[]))
    here.bus.publish(event("l2.keys.evicted", key_count=1))

    here.bus.stop()
    here.module.close()

    assert here.read_until("l2_evicted")


def test_one_setting_switches_off(server, monkeypatch):
    """In the module's config or in the environment; nothing is subscribed then."""
    assert server(enabled=False).module is None

    monkeypatch.setenv("TIERSCOPE_PROBE", "0")
    here = server()
    assert here.module is None
    assert not here.bus.callbacks


def test_a_server_without_a_bus_goes_on_without_us(fake_vllm):
    """Whatever is different in a release, the factory does not stop the server."""
    fake_vllm("lmcache.v1.mp_observability.event", EventType=EventType)
    context = build_context()
    del context.server_context.event_bus

    assert build_server_modules(context) is None


def test_a_release_with_fewer_events_is_read_as_far_as_it_goes(server, fake_vllm):
    """What is missing is named in the greeting."""
    names = [name for name in NAMES if not name.startswith("l2.")]
    fake_vllm("lmcache.v1.mp_observability.event", EventType=[EventType(name) for name in names])

    hello = server().read_until("hello")[0]

    assert hello["missing"] == [name for name in NAMES if name.startswith("l2.")]


def test_addresses_are_not_those_of_an_engine_on_the_host():
    """Unless somebody says otherwise, nearer or in the environment."""
    settings, salt_key = module_settings({}, {})
    assert (settings.endpoint, settings.replay_endpoint) == ("tcp://*:5767", "tcp://*:5867")
    assert salt_key == b""

    settings, salt_key = module_settings({"salt_key": "k"}, {"TIERSCOPE_PROBE_ENDPOINT": "ipc:///a"})
    assert (settings.endpoint, settings.replay_endpoint) == ("ipc:///a", "tcp://*:5867")
    assert salt_key == b"k"


def test_a_setting_that_is_not_one_is_named():
    """It stops neither the server nor the other settings."""
    settings, _ = module_settings({"endpont": "x"}, {})

    assert settings.enabled
    assert settings.problems[0].startswith("endpont: not a setting")
