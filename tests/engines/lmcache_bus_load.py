"""Lookups published into LMCache's real event bus with the probe on it; run by LMCache's own Python.

    python lmcache_bus_load.py LOOKUPS_PER_SECOND SECONDS CHUNKS

Each lookup is the events that a server publishes for a prompt whose chunks L1 has. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

from lmcache.v1.mp_observability.event import Event, EventType
from lmcache.v1.mp_observability.event_bus import EventBus

from tierscope_probe.lmcache_module import build_server_modules

TURN_SECONDS = 0.01


def lookup(number: int, chunks: list[bytes]) -> list[Event]:
    """The events of one lookup that hits L1."""
    session = f"cmpl-{number}"
    tokens = 256 * len(chunks)
    names = EventType
    return [
        Event(names.MP_LOOKUP_PREFETCH_START, session_id=session),
        Event(
            names.MP_LOOKUP,
            session_id=session,
            metadata={"chunk_hashes": chunks, "seq_len": tokens + 10, "chunk_size": 256, "model_name": "m"},
        ),
        Event(names.L1_READ_RESERVED, metadata={"keys": [], "l1_tag": "_default"}),
        Event(
            names.MP_LOOKUP_PREFETCH_END,
            session_id=session,
            metadata={
                "model_name": "m",
                "requested_tokens": tokens,
                "hit_tokens": tokens,
                "l1_hit_tokens": tokens,
                "l2_hit_tokens": 0,
                "l1_hit_keys": len(chunks),
                "l2_hit_keys": 0,
            },
        ),
        Event(names.L1_READ_FINISHED, metadata={"keys": [], "l1_tag": "_default"}),
        Event(names.MP_REQUEST_END, session_id=session),
    ]


def main() -> None:
    """Publish at the rate asked for, then say what became of the events."""
    rate, seconds, chunk_count = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    bus = EventBus()
    build = SimpleNamespace(
        server_context=SimpleNamespace(event_bus=bus, chunk_size=256, token_hasher=None),
        mp_config=SimpleNamespace(instance_id="load"),
        config={"endpoint": "tcp://127.0.0.1:*", "replay_endpoint": "tcp://127.0.0.1:*"},
    )
    module = build_server_modules(build)
    bus.start()
    began, number, most_queued = time.monotonic(), 0, 0
    while (passed := time.monotonic() - began) < seconds:
        while number < passed * rate:
            chunks = [(number * chunk_count + each).to_bytes(32, "big") for each in range(chunk_count)]
            for event in lookup(number, chunks):
                bus.publish(event)
            number += 1
        most_queued = max(most_queued, bus.queue_depth())
        time.sleep(TURN_SECONDS)
    took = time.monotonic() - began
    while bus.queue_depth():
        time.sleep(TURN_SECONDS)
    counts = module.report_status()["tierscope_probe"]
    print(
        json.dumps(
            {
                "lookups": number,
                "lookups_per_second": number / took,
                "events": counts["events"],
                "bus_dropped": bus.dropped_events_count(),
                "most_queued": most_queued,
                "probe_dropped": counts["dropped"],
                "us_an_event": counts["ns"] / counts["events"] / 1000,
            }
        )
    )
    module.close()
    bus.stop()


if __name__ == "__main__":
    main()
