"""An LMCache server as a source beside others that tell of the same pool."""

from __future__ import annotations

import pytest

from exporters.engines import EngineFacts
from exporters.lmcache.page_source import LmcacheSource
from tierscope.domain.events import TierActivity, TierSample
from tierscope.domain.tiers import Tier


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
