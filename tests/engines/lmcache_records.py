"""The records of the probe in an LMCache server, read while it is up."""

from __future__ import annotations

import time

import msgspec

from tests.engines.hook import Addresses, Record
from tests.engines.lmcache_server import LMCacheServer
from tests.engines.page import Page
from tests.engines.server import eventually
from tierscope.feed.messages import Message
from tierscope.feed.stream_subscriber import StreamSubscriber
from tierscope_probe.lmcache_module import STATUS_KEY

SECONDS = 30.0
TICKS = "lmcache_mp_l1_eviction_loop_ticks_total"


def read_settled(server: LMCacheServer, where: Addresses) -> list[Record]:
    """Read all records of a server that has nothing to do.

    Departures from L1 wait for the eviction loop's next tick; two ticks later everything is on its way.
    """
    seen = Page(server.metrics()).total(TICKS)
    assert eventually(lambda: Page(server.metrics()).total(TICKS) >= seen + 2, SECONDS, pause_seconds=0.1)
    return read_records(where, server.status()[STATUS_KEY]["sent"])


def read_records(where: Addresses, count: int) -> list[Record]:
    """Read a stream from its start until at least so many records came."""
    subscriber = StreamSubscriber(where.endpoint, where.replay_endpoint, source="probe under test")
    records: list[Record] = []
    deadline = time.monotonic() + SECONDS
    try:
        while len(records) < count:
            assert time.monotonic() < deadline, f"only {len(records)} of {count} came"
            for item in subscriber.receive(1.0):
                assert isinstance(item, Message), f"the stream has gaps: {item}"
                records += msgspec.msgpack.decode(item.payload)
    finally:
        subscriber.close()
    return records
