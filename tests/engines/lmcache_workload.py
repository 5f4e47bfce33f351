"""Prompts for a real LMCache server: everything that can happen to a chunk."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines.lmcache_server import CHUNK_BYTES, CHUNK_TOKENS, LMCacheClient, LMCacheServer
from tests.engines.page import Page
from tests.engines.server import eventually

L1_CHUNKS = 32
SECONDS = 30
SALT = "tenant-seven"


def document(number: int, chunks: int = 4) -> list[int]:
    """Tokens of a document, and ten more that fill no chunk; longer ones begin like shorter ones."""
    rng = random.Random(f"document {number}")
    return [rng.randrange(1000, 30000) for _ in range(16 * CHUNK_TOKENS)][: chunks * CHUNK_TOKENS + 10]


@dataclass
class Workload:
    """Prompts for one server, what their client was told of each, and what was done to the server."""

    server: LMCacheServer
    client: LMCacheClient
    told: dict[str, dict] = field(default_factory=dict)
    unlinked: list[Path] = field(default_factory=list)
    deleted_keys: int = 0
    cleared_chunks: int = 0

    def everything(self) -> None:
        """Cold, hot and old prompts, one that grows, a hole in L2, a burst, a deletion, a clearing."""
        for number in range(12):
            self.ask("cold", number)
            self.settle()
        for number in (11, 10, 11, 10):
            self.ask("hot", number)
        for number in (0, 1, 2):
            self.ask("old", number)
            self.settle()
        self.ask("grow", 11, chunks=6)
        self.ask("again", 10, admissions=2)
        self.ask("salted", 10, salt=SALT)
        self.settle()
        self.unlink_one()
        self.ask("holed", 3)
        for number in range(20, 36):
            self.ask("burst", number)
        self.settle()
        self.ask("kept", 36)
        self.settle()
        self.delete_some()
        self.settle()
        self.cleared_chunks = self.resident()
        self.server.clear()
        self.settle()

    def ask(self, step: str, number: int, chunks: int = 4, **how: object) -> None:
        """Take a document through the server."""
        rid = f"{len(self.told):03d}-{step}"
        self.told[rid] = self.client.ask(rid, document(number, chunks), **how)

    def settle(self) -> None:
        """Wait until L1 is below its watermark, and nothing moves."""

        def settled() -> bool:
            page = Page(self.server.metrics())
            moving = sum(page.total(f"lmcache_mp_num_inflight_l2_{what}") for what in ("stores", "loads"))
            return moving == 0 and self.resident() < 0.8 * L1_CHUNKS

        assert eventually(settled, SECONDS, pause_seconds=0.1), self.server.log_end()

    def resident(self) -> int:
        """Chunks in L1."""
        return Page(self.server.metrics()).total("lmcache_mp_l1_memory_usage_bytes") // CHUNK_BYTES

    def unlink_one(self) -> None:
        """Remove a chunk of document 3 from the pool, as the pool's own eviction would."""
        files = sorted(self.server.pool.glob("*.data"), key=lambda path: path.stat().st_mtime_ns)
        self.unlinked.append(files[3 * 4 + 2])
        files[3 * 4 + 2].unlink()

    def delete_some(self) -> None:
        """Delete the newest document's objects from L1, by the names of their files."""
        files = sorted(self.server.pool.glob("*.data"), key=lambda path: path.stat().st_mtime_ns)
        self.deleted_keys = self.server.delete([key_of(path) for path in files[-2:]])["deleted"]


def key_of(path: Path) -> dict:
    """The name of an object in LMCache's API, from the name of its file."""
    model, rank, group, chunk_hash, *_salt = path.stem.split("@")
    return {
        "chunk_hash_hex": chunk_hash,
        "model_name": model,
        "kv_rank": int(rank, 16),
        "object_group_id": int(group),
    }
