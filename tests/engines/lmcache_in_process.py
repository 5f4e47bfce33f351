"""LMCache as it is inside an engine, without the engine.

The storage with its hook and the lookups are LMCache's own; only the copy to and from a GPU is
its mock. Run by the Python of vLLM's environment with LMCache beside it, where both are in a real engine.
Reads requests as lines of JSON, writes an answer for each; an empty request asks what L1 holds.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from lmcache.observability import LMCStatsMonitor, PrometheusLogger
from lmcache.v1.cache_engine import LMCacheEngineBuilder
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.gpu_connector.mock_gpu_connector import MockGPUConnector
from lmcache.v1.metadata import LMCacheMetadata

LAYERS, HEADS, HEAD_SIZE = 4, 2, 64
INSTANCE = "inside-under-test"


class Engine:
    """The LMCache of one worker."""

    def __init__(self, settings: dict) -> None:
        config = LMCacheEngineConfig.from_defaults(lmcache_instance_id=INSTANCE, **settings)
        chunk = config.chunk_size
        self._metadata = LMCacheMetadata(
            model_name="test-model",
            world_size=1,
            local_world_size=1,
            worker_id=0,
            local_worker_id=0,
            kv_dtype=torch.float16,
            kv_shape=(LAYERS, 2, chunk, HEADS, HEAD_SIZE),
            role="worker",
            chunk_size=chunk,
            served_model_name="test-model",
        )
        self._chunk_tokens = chunk
        self._engine = LMCacheEngineBuilder.get_or_create(
            INSTANCE,
            config,
            self._metadata,
            MockGPUConnector(self._metadata.kv_shape),
            lambda tensor, _: tensor,
            lambda thing, _: thing,
        )
        self._engine.post_init()

    def ask(self, rid: str, tokens: list[int]) -> dict:
        """What an engine does with a prompt: look it up, retrieve what was found, store the rest."""
        hit = self._engine.lookup(tokens=tokens, lookup_id=rid, pin=True)
        held = {place: len(keys) for place, keys in self._engine.lookup_pins.get(rid, {}).items()}
        retrieved = int(self._engine.retrieve(torch.tensor(tokens[:hit]), req_id=rid).sum()) if hit else 0
        self._engine.lookup_unpin(rid)
        if hit < len(tokens) // self._chunk_tokens * self._chunk_tokens:
            mask = torch.ones(len(tokens), dtype=torch.bool)
            mask[:hit] = False
            self._engine.store(torch.tensor(tokens), mask=mask, req_id=rid)
        self._settle()
        return {"hit_tokens": hit, "retrieved_tokens": retrieved, "held_chunks": held}

    def l1(self) -> dict:
        """Names of the chunks in L1, and how many LMCache's own counter says were evicted so far."""
        (logger,) = PrometheusLogger._instances.values()
        counted = logger.counter_local_cpu_evict_keys_count.labels(**logger.labels)._value.get()
        counted += LMCStatsMonitor.GetOrCreate().interval_local_cpu_evict_keys_count
        held = self._engine.storage_manager.storage_backends["LocalCPUBackend"].hot_cache
        return {"chunks": [key.chunk_hash for key in list(held)], "evicted": round(counted)}

    def _settle(self) -> None:
        """Wait until what was stored is written."""
        storages = self._engine.storage_manager.storage_backends.values()
        while any(getattr(storage, "put_tasks", ()) for storage in storages):
            time.sleep(0.002)


def main() -> None:
    """Serve requests from standard input until it ends; whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = Engine(json.loads(sys.argv[1]))
    print("{}", file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(engine.ask(**asked) if asked else engine.l1()), file=answers)


if __name__ == "__main__":
    main()
