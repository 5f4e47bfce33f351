"""Why each computed token of a testbed's fleet was not served: what its own caches remember of every block.

It looks into every cache at the moment a request is admitted, which no exporter can, and knows nothing of how
`miss_causes` finds its names; it uses the same ones, in the order of precedence that their page promises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.model.l1 import Cache, Lookup
from tierscope.testbed.model.l2 import Pool
from tierscope.testbed.model.task import Task

FAILURE, EXPIRY, ISOLATION = "failure", "expiry", "isolation"
ROUTING, CAPACITY = "routing", "capacity"
COMPULSORY, GRANULARITY = "compulsory", "granularity"
MENDING = (FAILURE, EXPIRY, ISOLATION, CAPACITY)


class Willing(Cache):
    """A cache server by the testbed's own rules, but for one: it makes room for what it would refuse."""

    @classmethod
    def alone(cls, config: TestbedConfig) -> Willing:
        """One of a replica of this testbed, over a pool that keeps nothing."""
        nothing = Pool(
            capacity_bytes=0,
            chunk_bytes=config.chunk_bytes,
            workers=1,
            block_bytes=0,
            ttl_seconds=None,
            ttl_check_seconds=1.0,
        )
        return cls.of(config, nothing)

    def serve(self, chunks: Sequence[int], at_seconds: float) -> None:
        """Look a prompt up, keep what is new of it, and touch all of it."""
        lookup = self.lookup(chunks, at_seconds)
        self.release(lookup, at_seconds)
        for chunk in chunks[lookup.hit :]:
            while self.used_chunks >= self.capacity_chunks and self._evict(at_seconds):
                pass
            self.store([chunk], at_seconds)
        self.touch(chunks)


class Server:
    """What a cache server remembers of chunks it lacks, and what one that refuses nothing would have."""

    def __init__(self, config: TestbedConfig) -> None:
        self.refused_last: set[int] = set()
        self.sent: set[int] = set()
        self.willing = Willing.alone(config)

    def looked_up(
        self, request_id: str, number: int, chunks: Sequence[int], lookup: Lookup, at_seconds: float
    ) -> None: ...

    def stored(self, chunks: Sequence[int], source: str, at_seconds: float) -> None:
        self.refused_last.difference_update(chunks)

    def left(self, chunks: Sequence[int], reason: str, at_seconds: float) -> None: ...

    def refused(self, chunks: Sequence[int], at_seconds: float) -> None:
        self.refused_last.update(chunks)

    def not_loaded(self, chunks: Sequence[int], at_seconds: float) -> None: ...

    def wrote_back(
        self, chunks: Sequence[int], new: Sequence[int], completed: int, at_seconds: float
    ) -> None:
        self.sent.update(new)


class Truth:
    """Tokens of each request by why they were computed: `of[request_id]`, by name of the cause.

    `requests` are those of the recorded window, in its order.
    """

    def __init__(self, config: TestbedConfig) -> None:
        self.of: dict[str, Counter[str]] = {}
        self.requests: list[Counter[str]] = []
        self.servers = [Server(config) for _ in range(config.replicas)]
        self._config = config
        self._per_chunk = config.tokens_per_chunk // config.block_tokens
        self._asked: list[set[int]] = [set() for _ in range(config.replicas)]
        self.fleet: Fleet | None = None

    def admitted(self, replica: int, task: Task) -> None:
        """Note why what this request computes was nowhere to be had; nothing of it is stored yet."""
        config, request = self._config, task.request
        size = config.block_tokens
        blocks = list(request.hashes[: request.prompt_tokens // size])
        served = sum(task.credited)
        chunks = blocks[self._per_chunk - 1 :: self._per_chunk]
        whole = max(
            (request.prompt_tokens - 1) // size * size,
            min(len(chunks) * config.tokens_per_chunk, request.prompt_tokens - 1),
        )
        elsewhere = max(
            (self._reach(other, blocks) for other in range(config.replicas) if other != replica), default=0
        )
        told: Counter[str] = Counter()
        for place in range(served // size, len(blocks)):
            tokens = min((place + 1) * size, whole) - max(place * size, served)
            if tokens > 0:
                chain = chunks[task.found_chunks : place // self._per_chunk + 1]
                below = place // self._per_chunk < len(chunks) and self._known(chain[-1])
                cause = self._why(replica, blocks[place], chain if below else [], place < elsewhere)
                told[cause] += tokens
        told[GRANULARITY] += request.prompt_tokens - served - told.total()
        self._asked[replica].update(blocks)
        seed = self._seed(replica)
        self.servers[replica].willing.serve([chunk ^ seed for chunk in chunks], task.admitted_seconds)
        self.of[request.request_id] = told

    def _why(self, replica: int, block: int, chain: Sequence[int], elsewhere: bool) -> str:
        """Why a block is missing: `chain` are the chunks from the first that L1 and L2 lack to its own."""
        if not self._known(block):
            return COMPULSORY
        lost = self._lost(replica, chain) if chain else None
        if lost in (FAILURE, EXPIRY, ISOLATION):
            return lost
        if elsewhere:
            return ROUTING
        # A part of a chunk is in no tier but L0, so only one that had it could have kept it.
        return CAPACITY if chain or block in self._asked[replica] else GRANULARITY

    def _known(self, block: int) -> bool:
        """Whether anyone was asked for it, or for the chunk that ends with it."""
        return any(block in asked for asked in self._asked)

    def _lost(self, replica: int, chain: Sequence[int]) -> str:
        """What must be mended last for a chain's last chunk to be served: each needs all that precede it.

        Without refusals alone it would be, or with no time to live, or under one name as well, or only with
        more room.
        """
        lost = [self._lost_chunk(replica, chunk) for chunk in chain if not self._holds(replica, chunk)]
        return max(lost, key=MENDING.index, default=FAILURE)

    def _lost_chunk(self, replica: int, chunk: int) -> str:
        server, name = self.servers[replica], chunk ^ self._seed(replica)
        if any(name in other.sent for other in self.servers):
            return EXPIRY
        if name in server.refused_last and server.willing.resident(name):
            return FAILURE
        names = {chunk ^ self._seed(other) for other in range(self._config.replicas)}
        return ISOLATION if any(self.fleet.pool.holds(other) for other in names) else CAPACITY

    def _holds(self, replica: int, chunk: int) -> bool:
        name = chunk ^ self._seed(replica)
        return self.fleet.pool.holds(name) or self.fleet.engines[replica].cache.resident(name)

    def _seed(self, replica: int) -> int:
        """What makes this replica's names of chunks."""
        return self.fleet.engines[replica].chunk_seed

    def _reach(self, replica: int, blocks: Sequence[int]) -> int:
        """Leading blocks that another replica's L0 or L1 could serve by itself."""
        engine, seed = self.fleet.engines[replica], self._seed(replica)
        chunks = blocks[self._per_chunk - 1 :: self._per_chunk]
        held = sum(1 for _ in takewhile(lambda chunk: engine.cache.resident(chunk ^ seed), chunks))
        return max(engine.pool.leading(blocks, len(blocks)), held * self._per_chunk)
