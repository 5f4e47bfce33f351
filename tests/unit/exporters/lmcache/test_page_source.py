"""An LMCache server as a source beside others that tell of the same pool."""

from __future__ import annotations

import re

import pytest

from exporters.engines import EngineFacts
from exporters.exposition import parse_exposition
from exporters.ledger import Ledger
from exporters.lmcache.in_process_source import InProcessSource
from exporters.lmcache.page_source import LmcacheSource
from exporters.pools import PoolFacts
from tierscope.domain.events import TierActivity, TierSample
from tierscope.domain.settings import InProcessLmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB
from tierscope.registry.metrics import USED_BYTES


class Server:
    """Stands in for a fetcher: one recorded server, whose counters can be raised."""

    def __init__(self, folder):
        self.page = (folder / "metrics.txt").read_text("utf-8")
        self.status = (folder / "status.json").read_bytes()

    def get(self, url):
        return self.status if url.endswith("/status") else self.page.encode()


@pytest.fixture
def server(captures):
    return Server(captures / "lmcache" / "mp_pull")


def l2_activity(server, **fields):
    """What the second of two readings says of L2, after everything it counts grew from nothing."""
    source = LmcacheSource("one", "http://one", "pool", (), **fields)
    grown = server.page
    server.page = "\n".join(
        f"{line.rpartition(' ')[0]} 0" if line.startswith("lmcache_mp_") else line
        for line in grown.splitlines()
    )
    source.read(server, 1.0)
    server.page = grown
    reading = source.read(server, 2.0)
    (activity,) = (e for e in reading.entries if isinstance(e, TierActivity) and e.tier is Tier.L2)
    return activity


def test_a_server_tells_what_it_stored_in_its_pool(server):
    """64 chunks, and hits of 896 tokens."""
    activity = l2_activity(server)

    assert (activity.stored_blocks, activity.lookup_hit_tokens) == (64, 896)


def test_what_a_server_held_before_it_restarted_is_not_there_any_more(server):
    """UD-39: another incarnation has an L1 of its own; of one that does not answer none is known."""
    source = LmcacheSource("one", "http://one", "pool", ())
    ledger = Ledger("test", lambda entries: None)

    def used():
        return {s.labels: s.value for s in ledger.samples() if s.metric is USED_BYTES}

    ledger.post(source.source, source.read(server, 1.0).entries)
    assert used() == {("l1", "one"): 3_014_656}

    begun_anew = server.status.replace(b"1795956620088522666", b"1795956620088522667")
    server.status = re.sub(rb'("memory_used_bytes": ?)3014656', rb"\g<1>0", begun_anew)
    again = source.read(server, 2.0)
    ledger.post(source.source, again.entries)
    assert again.restarted
    assert used() == {("l1", "one"): 0}

    ledger.forget_readings(source.source)
    assert used() == {}


def test_what_a_scan_tells_of_the_pool_the_server_does_not_tell_again(server):
    """Stored and evicted chunks are the scan's; lookups are the server's own."""
    activity = l2_activity(server, pool_is_scanned=True)

    assert (activity.stored_blocks, activity.evicted_blocks) == (None, None)
    assert activity.lookup_hit_tokens == 896


def test_two_adapters_that_share_their_labels_are_told(server):
    """UD-24: LMCache names adapters by their type alone, so two of one type collide in one series."""
    server.page += (
        '\nlmcache_mp_l2_usage_bytes{l2_name="fs"} 40\nlmcache_mp_l2_usage_bytes{l2_name="fs"} 60\n'
    )

    reading = LmcacheSource("one", "http://one", "pool", ()).read(server, 1.0)

    (oddity,) = reading.oddities
    assert oddity.what == "series told twice"
    assert "lmcache_mp_l2_usage_bytes" in oddity.error.what


def test_what_two_adapters_hold_is_what_the_server_holds(server):
    """UD-24: 40 GiB in one and 60 GiB in the other are 100 GiB of the pool."""
    lines = [line for line in server.page.splitlines() if not line.startswith("lmcache_mp_l2_usage_bytes")]
    held = {"fs": 40 * GIB, "fs_native": 60 * GIB}
    lines += (f'lmcache_mp_l2_usage_bytes{{l2_name="{name}"}} {size}' for name, size in held.items())
    server.page = "\n".join(lines) + "\n"
    facts = PoolFacts()

    reading = LmcacheSource("one", "http://one", "pool", (), pool_facts=facts).read(server, 1.0)

    assert facts.cache_bytes == {"one": 100 * GIB}
    assert reading.oddities == []


def test_a_model_of_any_name_counts(server):
    """UD-25: a server labels its models by path, engines by served name; hits of both names are hits."""
    named = l2_activity(server)
    unlike = server.page.replace('model_name="test-model"', 'model_name="/models/a"')
    assert unlike != server.page
    server.page = unlike + (
        'lmcache_mp_lookup_hit_l2_tokens_total{cache_salt="",model_name="nobodys"} 64\n'
        'lmcache_mp_lookup_requested_tokens_total{cache_salt="",model_name="nobodys"} 64\n'
    )

    activity = l2_activity(server)

    assert activity.lookup_hit_tokens == named.lookup_hit_tokens + 64
    assert activity.lookup_miss_tokens == named.lookup_miss_tokens


@pytest.mark.parametrize(
    ("records_are_read", "engines", "kinds"),
    [
        (False, (EngineFacts(),), ["lmcache_loads_are_not_split"]),
        (True, (EngineFacts(),), []),
        (False, (), []),
    ],
)
def test_a_server_without_the_probe_says_that_loads_cannot_be_split(server, records_are_read, engines, kinds):
    """And what would tell them; nothing where nobody loads from it."""
    source = LmcacheSource("one", "http://one", "pool", engines, records_are_read=records_are_read)

    assert [finding.kind for finding in source.read(server, 1.0).findings] == kinds


def test_where_records_are_read_the_page_tells_sizes_alone(server):
    """Else everything would count twice."""
    source = LmcacheSource("one", "http://one", "pool", (), records_are_read=True)

    source.read(server, 1.0)

    assert [type(entry) for entry in source.read(server, 2.0).entries] == [TierSample]


def test_the_size_of_l1_is_one_workers_inside_an_engine_and_the_nodes_beside_it(server):
    """UD-43: 30 GiB as set are 120 GiB of four workers inside an engine, and 30 of a server of its own."""
    lines = (f'lmcache:local_cache_usage{{worker_id="{worker}",role="worker"}} 5' for worker in range(4))
    page = parse_exposition("\n".join(lines), where="engine")
    settings = InProcessLmcacheSettings(name="inside", workers=4, l1_bytes=30 * GIB, chunk_tokens=64)
    inside = InProcessSource(settings, EngineFacts(), lambda: page)
    server.status = server.status.replace(
        b'"memory_total_bytes":4194304', b'"memory_total_bytes":32212254720'
    )

    def l1_bytes(source):
        entries = source.read(server, 1.0).entries
        return [e.capacity_bytes for e in entries if isinstance(e, TierSample) and e.tier is Tier.L1]

    assert l1_bytes(inside) == [120 * GIB]
    assert l1_bytes(LmcacheSource("beside", "http://one", "pool", ())) == [30 * GIB]
