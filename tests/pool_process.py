"""Scans a pool in a process of its own, to be measured and killed: `python -m tests.pool_process SETTINGS`.

SETTINGS are those of the mount, as JSON. It prints a line of JSON when the mount has answered for the first
time, and one after each complete scan: files, chunks stored and removed, how long it took, the processor time
and the most memory used so far.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

from exporters.mount.page_source import MountSource
from exporters.pools import PoolFacts
from exporters.private import keyed_hash
from tests.memory import peak_bytes
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import BlockEvent
from tierscope.domain.mount_settings import MountSettings
from tierscope.registry import metrics


def shown(source: MountSource) -> Counter:
    """What the source shows, summed over its labels."""
    values: Counter = Counter()
    for sample in source.samples():
        values[sample.metric] += sample.value
    return values


def report(values: Counter, changes: Counter) -> str:
    return json.dumps(
        {
            "files": values[metrics.POOL_FILES],
            "stored": changes["stored"],
            "removed": changes["evicted"],
            "seconds": values[metrics.POOL_SCAN_SECONDS],
            "cpu_seconds": time.process_time(),
            "peak_bytes": peak_bytes(),
        }
    )


def main() -> None:
    settings = MountSettings(**json.loads(sys.argv[1]))
    source = MountSource(
        settings, PoolFacts(), keyed_hash(b"a key of sixteen"), clock=time.time, monotonic=time.monotonic
    )
    last_seconds, began = 0.0, False
    while True:
        time.sleep(0.01)
        try:
            entries = source.read(None, time.time()).entries
        except SourceUnreadable:
            continue
        if not began:
            began = True
            print("{}", flush=True)
        changes: Counter = Counter()
        for entry in entries:
            if isinstance(entry, BlockEvent):
                changes[entry.action] += len(entry.block_hashes)
        values = shown(source)
        if values[metrics.POOL_SCAN_SECONDS] not in (last_seconds, 0):
            last_seconds = values[metrics.POOL_SCAN_SECONDS]
            print(report(values, changes), flush=True)


if __name__ == "__main__":
    main()
