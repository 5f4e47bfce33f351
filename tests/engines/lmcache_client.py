"""An engine's worker towards a real LMCache server; run by the Python of LMCache's own environment.

Reads requests as lines of JSON, writes an answer for each. A request is what an engine does with a prompt:
look it up and retrieve what was found, in each of its `admissions`, store the rest, end the session.
The data path is LMCache's own benchmark client, which copies through shared memory.
"""

from __future__ import annotations

import json
import os
import sys

from lmcache.cli.commands.bench.server_bench import helpers
from lmcache.cli.commands.bench.server_bench.client import RequestContext, ServerBenchClient
from lmcache.cli.commands.bench.server_bench.config import BenchConfig
from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey

BLOCK_TOKENS = 16
MODEL_NAME = "test-model"
make_key = helpers._make_key


class Worker:
    """Sends requests; one worker process stands for all tensor-parallel ranks."""

    def __init__(self, rpc_url: str, http_url: str, ranks: int, chunk_tokens: int) -> None:
        self._chunk_tokens = chunk_tokens
        self._number = 0
        self._salt = ""
        helpers._make_key = self._make_key
        self._client = ServerBenchClient(
            BenchConfig(
                rpc_url=rpc_url,
                http_url=http_url,
                mode="cpu",
                transfer_mode="lmcache_driven",
                tp_size=ranks,
                use_mla=False,
                num_tokens=1024,
                kvcache_shape_spec="(2,256,16,2,64):float16:4",
                num_blocks=256,
                block_size=BLOCK_TOKENS,
            ),
            log=lambda _: None,
        )
        self._client.start()

    def do(self, asked: dict) -> dict:
        """Take one prompt through the server; returns what an engine would know of it."""
        self._salt = asked.get("salt", "")
        request = self._request(asked["rid"], tuple(asked["tokens"]))
        for _ in range(asked.get("admissions", 1)):
            hit_tokens = self._client.lookup(request).hit_chunks * self._chunk_tokens
            retrieved = self._client.retrieve(request, 0, hit_tokens)
        rest = request.num_full_tokens - hit_tokens
        stored = self._client.store(request, hit_tokens, rest)
        self._client.end_session(request)
        return {
            "hit_tokens": hit_tokens,
            "retrieved_tokens": retrieved.token_count if retrieved and retrieved.succeeded else 0,
            "stored_tokens": stored.token_count if stored and stored.succeeded else 0,
        }

    def close(self) -> None:
        """Leave the server."""
        self._client.close()

    def _request(self, rid: str, tokens: tuple[int, ...]) -> RequestContext:
        self._number += 1
        chunks = len(tokens) // self._chunk_tokens
        whole = chunks * self._chunk_tokens
        return RequestContext(
            sequence_id=self._number,
            request_id=rid,
            request_kind="test",
            token_ids=tokens,
            num_full_tokens=whole,
            total_chunks=chunks,
            chunk_size=self._chunk_tokens,
            block_offset=0,
            num_blocks=whole // BLOCK_TOKENS,
        )

    def _make_key(self, *args: object, **kwargs: object) -> IPCCacheServerKey:
        """Make the key as the benchmark does, with the salt of the request under way."""
        key = make_key(*args, **kwargs)
        fields = (
            "model_name",
            "world_size",
            "num_kv_readers",
            "worker_id",
            "token_ids",
            "start",
            "end",
            "request_id",
        )
        return IPCCacheServerKey(**{name: getattr(key, name) for name in fields}, cache_salt=self._salt)


def main() -> None:
    """Serve requests from standard input until it ends; whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    rpc_url, http_url, ranks, chunk_tokens = sys.argv[1:]
    worker = Worker(rpc_url, http_url, int(ranks), int(chunk_tokens))
    print("{}", file=answers)
    for line in sys.stdin:
        print(json.dumps(worker.do(json.loads(line))), file=answers)
    worker.close()


if __name__ == "__main__":
    main()
