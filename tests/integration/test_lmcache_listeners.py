"""An exporter that LMCache takes for its coordinator, and for its controller: up to what `/metrics` shows."""

from __future__ import annotations

import httpx
import msgspec
import pytest
import zmq

from exporters.process import Exporter
from tests.exporting import Scrape, await_true
from tests.ports import free_port
from tierscope.domain.settings import ExporterSettings, InProcessLmcacheSettings, LmcacheSettings
from tierscope.registry.metrics import SOURCE_UP, STORED_BLOCKS


@pytest.fixture
def ports():
    return free_port(), free_port()


@pytest.fixture
def exporter(ports):
    coordinator, controller = ports
    settings = ExporterSettings(
        lmcache=(LmcacheSettings(name="node-1", url="http://127.0.0.1:9", coordinator_port=coordinator),),
        lmcache_in_process=(
            InProcessLmcacheSettings(
                name="inside", controller_endpoint=f"tcp://127.0.0.1:{controller}", chunk_tokens=64
            ),
        ),
        timeout_seconds=1.0,
    )
    with Exporter(settings) as running:
        yield running


def stored(exporter):
    return Scrape(exporter.addresses.metrics_url).sums(STORED_BLOCKS, "tier", "holder")


def test_what_a_server_tells_its_coordinator_is_counted(exporter, ports):
    """One chunk in its L1, told by its only object."""
    key = {"chunk_hash_hex": "ab" * 32}
    batch = {
        "seq": 1,
        "event_type": "store",
        "tier": "l1",
        "ts": 1.0,
        "entries": [{"key": key, "size_bytes": 1}],
    }

    answer = httpx.post(f"http://127.0.0.1:{ports[0]}/events", json={"batches": [batch]}, trust_env=False)

    assert answer.status_code == 200
    assert stored(exporter) == {("l1", "node-1"): 1}
    up = Scrape(exporter.addresses.metrics_url).sums(SOURCE_UP, "source")
    assert up["lmcache_coordinator:node-1"] == 1


def test_what_a_worker_tells_its_controller_is_counted(exporter, ports):
    """Two chunks came into L1 of the engine's LMCache."""
    operations = [{"op_type": "admit", "key": chunk, "seq_num": chunk} for chunk in (0, 1)]
    message = {"type": "BatchedKVOperationMsg", "location": "LocalCPUBackend", "operations": operations}
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.connect(f"tcp://127.0.0.1:{ports[1]}")
        push.send(msgspec.msgpack.encode(message))
        await_true(lambda: stored(exporter) == {("l1", "inside"): 2}, "both were counted")
