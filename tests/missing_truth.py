"""Why each computed token of a testbed's fleet was not served: what its own caches remember of every block.

It looks into every cache at the moment a request is admitted, which no exporter can, and knows nothing of how
`miss_causes` finds its names; it uses the same ones, in the order of precedence that their page promises.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence

from tierscope.testbed.config import TestbedConfig
from tierscope.testbed.model.fleet import Fleet
from tierscope.testbed.model.l1 import Lookup
from tierscope.testbed.model.task import Task

FAILURE, EXPIRY, ROUTING, CAPACITY = "failure", "expiry", "routing", "capacity"
COMPULSORY, GRANULARITY = "compulsory", "granularity"
MENDING = (FAILURE, EXPIRY, CAPACITY)


class Server:
    """What a cache server remembers of chunks it lacks, and what one that refuses nothing would have."""

    def __init__(self, capacity_chunks: int) -> None:
        self.refused_last: set[int] = set()
        self.sent: set[int] = set()
        self.willing: OrderedDict[int, None] = OrderedDict()
        """An LRU of the same size that makes room for whatever comes."""
        self._capacity_chunks = capacity_chunks

    def asked(self, chunks: Sequence[int]) -> None:
        """Let the willing one have a whole path, its first chunk last."""
        for chunk in reversed(chunks):
            self.willing[chunk] = None
            self.willing.move_to_end(chunk)
        while len(self.willing) > self._capacity_chunks:
            self.willing.popitem(last=False)

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
        self.servers = [Server(config.l1_chunks) for _ in range(config.replicas)]
        self._config = config
        self._per_chunk = config.tokens_per_chunk // config.block_tokens
        self._asked: set[int] = set()
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
                below = place // self._per_chunk < len(chunks)
                cause = self._why(replica, blocks[place], chain if below else [], place < elsewhere)
                told[cause] += tokens
        told[GRANULARITY] = request.prompt_tokens - served - told.total()
        self._asked.update(blocks)
        self.servers[replica].asked(chunks)
        self.of[request.request_id] = told

    def _why(self, replica: int, block: int, chain: Sequence[int], elsewhere: bool) -> str:
        """Why a block is missing: `chain` are the chunks from the first that L1 and L2 lack to its own."""
        if block not in self._asked:
            return COMPULSORY
        lost = self._lost(replica, chain) if chain else None
        if lost in (FAILURE, EXPIRY):
            return lost
        return ROUTING if elsewhere else CAPACITY

    def _lost(self, replica: int, chain: Sequence[int]) -> str:
        """What must be mended last for a chain's last chunk to be served: each needs all that precede it.

        Without refusals alone it would be, or with no time to live as well, or only with more room.
        """
        lost = [self._lost_chunk(replica, chunk) for chunk in chain if not self._holds(replica, chunk)]
        return max(lost, key=MENDING.index, default=FAILURE)

    def _lost_chunk(self, replica: int, chunk: int) -> str:
        if any(chunk in server.sent for server in self.servers):
            return EXPIRY
        server = self.servers[replica]
        return FAILURE if chunk in server.refused_last and chunk in server.willing else CAPACITY

    def _holds(self, replica: int, chunk: int) -> bool:
        engine = self.fleet.engines[replica]
        return self.fleet.pool.holds(chunk) or engine.cache.resident(chunk)

    def _reach(self, replica: int, blocks: Sequence[int]) -> int:
        """Leading blocks that another replica's L0 or L1 could serve by itself."""
        engine = self.fleet.engines[replica]
        chunks = blocks[self._per_chunk - 1 :: self._per_chunk]
        held = next((k for k, chunk in enumerate(chunks) if not engine.cache.resident(chunk)), len(chunks))
        return max(engine.pool.leading(blocks, len(blocks)), held * self._per_chunk)
