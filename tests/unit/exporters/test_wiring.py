"""From settings to sources."""

from __future__ import annotations

from exporters.engines import Engines
from exporters.wiring import engine_id, page_sources
from tierscope.domain.settings import CurvineSettings, EngineSettings, ExporterSettings, LmcacheSettings


def engine(replica, rank=0, **fields):
    return EngineSettings(namespace="ns", endpoint="chat", replica=replica, rank=rank, **fields)


def sources(**settings):
    engines = Engines()
    found = page_sources(ExporterSettings(**settings), engines, began_unix_seconds=0.0)
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
