"""From settings to sources."""

from __future__ import annotations

import zmq

from exporters.engines import Engines
from exporters.exposition import parse_exposition
from exporters.health import Health, Voice
from exporters.pools import Pools
from exporters.private import keyed_hash
from exporters.wiring import StreamOpener, engine_id, mount_sources, page_sources
from tierscope.domain.mount_settings import MountSettings
from tierscope.domain.settings import (
    CurvineSettings,
    EngineSettings,
    ExporterSettings,
    InProcessLmcacheSettings,
    LmcacheSettings,
)


def engine(replica, rank=0, **fields):
    return EngineSettings(namespace="ns", endpoint="chat", replica=replica, rank=rank, **fields)


def health_of(source):
    voice = Voice(warn=print, inform=print)
    return Health(source, fresh_seconds=5, since_unix_seconds=0, monotonic=lambda: 0.0, voice=voice)


def sources(**settings):
    engines = Engines()
    found = page_sources(ExporterSettings(**settings), engines, Pools(), began_unix_seconds=0.0)
    return {str(source.source): source for source in found}, engines


def test_ranks_behind_one_api_server_are_one_page():
    """It is asked once, for all of them."""
    both = (engine("pod-0", 0, metrics_url="http://a"), engine("pod-0", 1, metrics_url="http://a"))

    found, _ = sources(engines=(*both, engine("pod-1", metrics_url="http://b"), engine("pod-2")))

    assert list(found) == ["vllm_metrics:ns/chat/pod-0/0", "vllm_metrics:ns/chat/pod-1/0"]
    assert found["vllm_metrics:ns/chat/pod-0/0"].known == [engine_id(settings) for settings in both]


def test_an_lmcache_server_knows_its_engines_and_its_pool():
    """Its chunk size goes to the engines that load from it; without a pool it holds its L2 itself."""
    found, engines = sources(
        engines=(engine("pod-0", lmcache="one"), engine("pod-1", lmcache="two")),
        lmcache=(
            LmcacheSettings(name="one", url="http://one", pool="pool"),
            LmcacheSettings(name="two", url="http://two"),
        ),
        curvine=(CurvineSettings(name="pool", master_urls=("http://m",)),),
    )

    one, two = found["lmcache_metrics:one"], found["lmcache_metrics:two"]
    assert (one.pool, two.pool) == ("pool", "two")
    assert one.engines[0] is engines.facts(engine_id(engine("pod-0")))
    assert "curvine_master:pool" in found


def test_lmcache_inside_an_engine_is_read_from_its_page():
    """It completes that engine's facts, and sees what the engine's page said last."""
    found, engines = sources(
        engines=(engine("pod-0", lmcache="inside", metrics_url="http://a"), engine("pod-1")),
        lmcache_in_process=(InProcessLmcacheSettings(name="inside", pool="pool"),),
        mounts=(MountSettings(pool="pool", path="/mnt/kv"),),
    )

    inside, page = found["lmcache_metrics:inside"], found["vllm_metrics:ns/chat/pod-0/0"]
    page.latest = parse_exposition("lmcache:num_hit_tokens_total 1", where="page")
    assert inside.facts is engines.facts(engine_id(engine("pod-0")))
    assert inside.engine_page() is page.latest
    assert inside.pool_is_scanned


def test_a_probed_servers_lookups_reach_the_engines_that_load_from_it():
    """Its stream is read before theirs; its page then tells sizes alone."""
    settings = ExporterSettings(
        engines=(
            engine("pod-0", lmcache="one", hook_endpoint="tcp://127.0.0.1:1"),
            engine("pod-1", lmcache="two"),
        ),
        lmcache=(
            LmcacheSettings(name="one", url="http://one", records_endpoint="tcp://127.0.0.1:2"),
            LmcacheSettings(name="two", url="http://two"),
        ),
    )
    engines = Engines()
    with zmq.Context() as context:
        opener = StreamOpener(engines, keyed_hash(b"a key of sixteen"), context)
        streams = list(opener.open_all(settings, health_of))
        for stream in streams:
            stream.subscriber.close()
    pages = page_sources(settings, engines, Pools(), began_unix_seconds=0.0)

    assert [str(stream.health.source) for stream in streams] == [
        "lmcache_records:one",
        "vllm_hook:ns/chat/pod-0/0",
    ]
    first, second = (engines.facts(engine_id(each)) for each in settings.engines)
    assert first.lookups is streams[0].meaning.lookups
    assert second.lookups is None
    assert [page.records_are_read for page in pages] == [True, False]


def test_the_storage_hooks_of_an_engines_workers_are_one_keeper_of_its_loads():
    """Each worker has a stream; together they say what the engine's requests loaded from L2."""
    endpoints = ("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
    settings = ExporterSettings(
        engines=(engine("pod-0", lmcache="inside"),),
        lmcache_in_process=(
            InProcessLmcacheSettings(name="inside", workers=2, storage_endpoints=endpoints, pool="pool"),
        ),
    )
    engines = Engines()
    with zmq.Context() as context:
        opener = StreamOpener(engines, keyed_hash(b"a key of sixteen"), context)
        streams = list(opener.open_all(settings, health_of))
        for stream in streams:
            stream.subscriber.close()

    assert [str(stream.health.source) for stream in streams] == [
        "lmcache_records:inside/0",
        "lmcache_records:inside/1",
    ]
    keeper = engines.facts(engine_id(settings.engines[0])).lookups
    assert all(stream.meaning.reads is keeper for stream in streams)
    assert keeper.workers == 2


def test_a_scanned_pool_is_told_by_its_scan_and_its_size_by_its_master():
    """Who reads a pool knows who else does; that it is scanned elsewhere, only the settings say."""
    settings = ExporterSettings(
        lmcache=(
            LmcacheSettings(name="one", url="http://one", pool="pool"),
            LmcacheSettings(name="two", url="http://two", pool="far", pool_is_scanned=True),
            LmcacheSettings(name="three", url="http://three", pool="far"),
        ),
        curvine=(CurvineSettings(name="pool", master_urls=("http://m",)),),
        mounts=(MountSettings(pool="pool", path="/mnt/kv"), MountSettings(pool="plain", path="/mnt/plain")),
    )
    pools = Pools()

    found = list(page_sources(settings, Engines(), pools, began_unix_seconds=0.0))
    mounts = mount_sources(
        settings, pools, keyed_hash(b"a key of sixteen"), clock=lambda: 0.0, monotonic=lambda: 0.0
    )

    assert [str(mount.source) for mount in mounts] == ["pool_mount:pool", "pool_mount:plain"]
    assert [source.pool_is_scanned for source in found if source.source.kind == "lmcache_metrics"] == [
        True,
        True,
        False,
    ]
    assert pools.facts("pool").master_tells
    assert not pools.facts("plain").master_tells
