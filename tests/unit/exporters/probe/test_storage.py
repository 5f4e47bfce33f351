"""The storage hook of LMCache inside an engine, around what stands in for LMCache's own connector."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tierscope_probe.errors import ErrorCount
from tierscope_probe.storage import MOST_RIDS, STORAGE_RECORDS, Holders, StorageObserver

FS = "lmcache.v1.storage_backend.connector.fs_connector"
ENGINES = "lmcache.v1.cache_engine"
CHUNK_BYTES = 1000


@dataclass(frozen=True)
class Key:
    """The name of a chunk."""

    chunk_hash: int


class Chunk:
    """An object in memory."""

    def __init__(self, size=CHUNK_BYTES):
        self.size = size

    def get_size(self):
        return self.size


class Connector:
    """What the hook sees of LMCache's connector to a directory."""

    full_chunk_size_bytes = CHUNK_BYTES
    single_token_size = 10

    def __init__(self, loop=None, local_cpu_backend=None, config=None):
        self.loop, self.local_cpu_backend = loop, local_cpu_backend
        self.files = {}

    async def get(self, key):
        if key.chunk_hash == 13:
            raise OSError("a bad sector")
        return self.files.get(key.chunk_hash)

    async def put(self, key, memory_obj):
        if key.chunk_hash == 13:
            raise OSError("no space")
        self.files[key.chunk_hash] = memory_obj

    async def exists(self, key):
        return key.chunk_hash in self.files

    def exists_sync(self, key):
        return key.chunk_hash in self.files

    async def batched_get_non_blocking(self, lookup_id, keys):
        return [await self.get(key) for key in keys]

    async def close(self):
        self.closed = True


@pytest.fixture
def pins():
    """What LMCache's lookups hold: the engine's own table."""
    return {}


@pytest.fixture
def module(fake_vllm, imported, pins, monkeypatch):
    """The hook's module beside a package that stands in for LMCache."""
    builder = SimpleNamespace(_instances={"one": SimpleNamespace(lookup_pins=pins)})
    fake_vllm(FS, FSConnector=Connector)
    fake_vllm(ENGINES, LMCacheEngineBuilder=builder)
    yield imported("tierscope_probe.storage_connector")
    sys.modules.pop("tierscope_probe.storage_connector", None)


def backend(role="worker", **extra):
    config = SimpleNamespace(
        chunk_size=100, extra_config=extra, remote_serde="naive", use_layerwise=False, lmcache_instance_id="i"
    )
    return SimpleNamespace(config=config, metadata=SimpleNamespace(worker_id=2, role=role))


def made(module, **settings):
    place = backend(**settings)
    return module.ObservingFSConnector(loop=None, local_cpu_backend=place, config=place.config)


def run(work):
    return asyncio.run(work)


def of(records, kind):
    return [record for record in records() if record["t"] == kind]


def test_a_chunk_that_is_read_is_told_with_whoever_held_it(module, pins, sent):
    """Its tokens, its bytes and from when to when; negative hashes as the pool's events have them."""
    connector = made(module)
    pins["r"] = {"LocalCPUBackend": [Key(5)], "RemoteBackend-fs": [Key(-1)]}
    run(connector.put(Key(-1), Chunk()))

    found = run(connector.get(Key(-1)))

    assert isinstance(found, Chunk)
    (read,) = of(sent, "read")
    assert tuple(read) == ("t", *STORAGE_RECORDS["read"])
    assert (read["rids"], read["chunk"], read["tokens"]) == (["r"], b"\xff" * 8, 100)
    assert (read["bytes"], read["start"] <= read["end"]) == (CHUNK_BYTES, True)


def test_a_tail_that_is_kept_as_part_of_a_chunk_has_its_own_tokens(module, sent):
    """300 bytes of 10 a token."""
    connector = made(module)
    run(connector.put(Key(1), Chunk(300)))

    run(connector.get(Key(1)))

    assert of(sent, "read")[0]["tokens"] == 30


def test_releases_that_hold_chunks_in_one_list_are_read_too(module, pins, sent):
    """LMCache 0.3.9 does not say in which storage it holds them."""
    connector = made(module)
    pins["r"] = [Key(1)]
    run(connector.get(Key(1)))

    assert of(sent, "read")[0]["rids"] == ["r"]


def test_a_whole_lookup_that_is_read_ahead_is_its_requests(module, pins, sent):
    """LMCache names it; whoever else holds the chunk did not ask."""
    connector = made(module)
    pins["other"] = {"RemoteBackend": [Key(1)]}

    run(connector.batched_get_non_blocking("r", [Key(1)]))
    run(connector.get(Key(1)))

    assert [read["rids"] for read in of(sent, "read")] == [["r"], ["other"]]


def test_what_is_not_there_has_no_bytes(module, sent):
    """Found by the lookup, gone when it was read; and a read that fails fails as it did before."""
    connector = made(module)

    assert run(connector.get(Key(9))) is None
    with pytest.raises(OSError, match="a bad sector"):
        run(connector.get(Key(13)))

    assert [read["bytes"] for read in of(sent, "read")] == [None, None]


def test_writes_are_told_with_those_that_failed(module, sent):
    """LMCache counts a failed one as written."""
    connector = made(module)
    run(connector.put(Key(1), Chunk()))
    with pytest.raises(OSError, match="no space"):
        run(connector.put(Key(13), Chunk()))

    assert [(write["chunk"][-1], write["bytes"]) for write in of(sent, "write")] == [(1, 1000), (13, None)]


def test_chunks_that_were_looked_for_are_counted(module, sent):
    """Asked in either way LMCache has, and answered as before."""
    connector = made(module)
    run(connector.put(Key(1), Chunk()))

    answers = [run(connector.exists(Key(1))), connector.exists_sync(Key(2))]

    stats = connector._probe._stats()
    assert answers == [True, False]
    assert (stats["asked"], stats["found"]) == (2, 1)
    assert tuple(stats) == ("t", *STORAGE_RECORDS["stats"])


@pytest.mark.parametrize(
    ("settings", "environ"),
    [({"tierscope": {"enabled": False}}, {}), ({}, {"TIERSCOPE_PROBE": "0"}), ({"role": "scheduler"}, {})],
    ids=["setting", "environment", "scheduler"],
)
def test_it_can_be_switched_off(module, sent, monkeypatch, settings, environ):
    """And is, in the scheduler, which reads nothing; LMCache goes on as without it."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    connector = made(module, **settings)
    run(connector.put(Key(1), Chunk()))

    assert run(connector.get(Key(1))).get_size() == CHUNK_BYTES
    assert connector._probe is None
    assert sent() == []


def test_nothing_of_it_reaches_lmcache(module, sent):
    """A key that is none of ours, an engine without its table: counted, and the chunk is served."""
    connector = made(module)
    run(connector.put(Key(1), Chunk()))
    connector._probe.observer._holders = Holders(lambda: 1 / 0)

    assert run(connector.get(Key(1))) is not None
    assert connector._probe._stats()["errors"] == 1


def test_a_place_that_cannot_be_understood_gets_no_probe(module, sent):
    """A release we do not know keeps its storage."""
    connector = module.ObservingFSConnector(loop=None, local_cpu_backend=SimpleNamespace(), config=None)

    assert connector._probe is None


def test_each_worker_binds_a_port_of_its_own(module):
    """Port of worker 0 and its number; the environment has names that are not the engine hook's."""
    settings = module.storage_settings({}, {"TIERSCOPE_PROBE_STORAGE_ENDPOINT": "tcp://*:7000"})

    assert (settings.endpoint, settings.replay_endpoint) == ("tcp://*:7000", "tcp://*:5877")


def test_closing_it_sends_the_last_records_and_closes_the_real_one(module, sent):
    """In that order, and a probe that cannot be closed keeps nothing open."""
    connector = made(module)

    run(connector.close())

    assert connector.closed


def test_only_the_first_holders_of_a_chunk_are_named():
    """Whoever came later found it in L1."""
    holders = Holders(lambda: [(f"r{i}", {"RemoteBackend": [Key(1)]}) for i in range(9)])

    assert holders.of(1) == tuple(f"r{i}" for i in range(MOST_RIDS))


def test_a_lookup_that_grows_is_gone_through_again():
    """Layer by layer LMCache adds to what a request holds."""
    held = [Key(1)]
    holders = Holders(lambda: [("r", {"RemoteBackend": held})])

    assert holders.of(2) == ()
    held.append(Key(2))
    assert holders.of(2) == ("r",)


def test_it_says_what_it_cost():
    """Nanoseconds and calls, of reads and of writes."""
    clock = iter(range(0, 100, 10))
    observer = StorageObserver(
        lambda _: None, pins=list, tokens_of=int, errors=ErrorCount(), stopwatch=lambda: next(clock)
    )

    observer.read(Key(1), 1, (0.0, 1.0), None)
    observer.wrote(Key(1), 1, (0.0, 1.0))

    assert (observer.calls, observer.spent_ns) == (2, 20)


def test_the_wire_is_documented(repository):
    """The README's table lists the kinds and fields there are, in their order."""
    readme = (repository / "exporters" / "probe" / "README.md").read_text("utf-8")
    part = readme.split("## Records of the storage hook")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| (`.*) \|$", part, re.MULTILINE)

    documented = {kind: tuple(re.findall(r"`(\w+)`", fields)) for kind, fields in rows}
    assert documented == STORAGE_RECORDS
