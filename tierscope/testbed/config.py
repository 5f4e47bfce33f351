"""What a testbed is made of: sizes, speeds, traffic and faults, as frozen types with defaults for a demo."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from tierscope.domain.deployment import Objective, RoutingPolicy
from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.units import GIB, MIB
from tierscope.testbed.routers import ROUTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTimes:
    """How long an engine takes. The defaults lie near a 7B model on one 48 GB inference GPU.

    Every time is multiplied by its own log-normal factor with median 1 and shape `noise_sigma`.
    """

    fixed_seconds: float = 0.025
    """Tokenising, scheduling, one forward pass and the way back, whatever the prompt."""
    prefill_seconds_per_token: float = 84e-6
    attention_seconds_per_token_pair: float = 8e-10
    """Prefill time for each pair of a computed token and a token before it."""
    decode_seconds_per_token: float = 0.02
    l1_bytes_per_second: float = 20e9
    l1_seconds_per_chunk: float = 0.0001
    l2_bytes_per_second: float = 1.84e9
    l2_seconds_per_chunk: float = 0.0005
    noise_sigma: float = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Traffic of the built-in workload: sessions started a (virtual) second, by kind. 0 leaves a kind out."""

    agents_per_second: float = 0.08
    """Agents: a shared system prompt, then a prompt that grows with every tool result; short think times."""
    chats_per_second: float = 0.12
    """People: a shared system prompt, a few turns, long think times."""
    documents_per_second: float = 0.5
    """Questions about one of a set of documents, popular ones more often; mostly one turn."""
    unrelated_per_second: float = 0.3
    """Prompts that share nothing with any other."""
    abort_ratio: float = 0.01
    """Share of requests whose client goes away within two seconds."""
    salted_ratio: float = 0.03
    """Share of sessions with a cache salt of their own tenant, which shares no prefix with others."""
    traced_ratio: float = 0.25
    """Share of requests that arrive with a W3C trace context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFaults:
    """What goes wrong on a stream; counted in batches, 0 for never."""

    drop_live_every: int = 0
    """Every n-th batch is not sent live; a replay still has it."""
    lose_every: int = 0
    """Every n-th batch is lost for good: neither sent nor replayed."""
    delay_seconds: float = 0.0
    """Wall seconds every batch is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A replica's engine restarts at a virtual second: L0 empty, counters and sequences at 0."""

    replica: int
    at_seconds: float


class IncidentKind(StrEnum):
    """What may befall a deployment so that first tokens come later; `factor` says how much."""

    L2_SLOW = "l2_slow"
    """The pool is read at a `factor`-th of its speed."""
    L2_WORKER_LOST = "l2_worker_lost"
    """A pool worker goes, with its chunks, its room and its part of the bandwidth."""
    L1_SHRUNK = "l1_shrunk"
    """Every host cache has a `factor`-th of its room."""
    SEED_MISMATCH = "seed_mismatch"
    """Every replica names chunks in its own way: one's chunks are not found by another."""
    ROUTER_CHANGED = "router_changed"
    """Requests are spread in turn, whatever the router did before."""
    QUEUE = "queue"
    """Engines serve a `factor`-th of the requests at once."""
    ENGINE_SLOW = "engine_slow"
    """Computing takes `factor` times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that befalls the whole deployment at a virtual second and stays."""

    kind: IncidentKind
    at_seconds: float
    factor: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong; everything is off by default. May be replaced while the testbed runs."""

    events: StreamFaults = field(default_factory=StreamFaults)
    hook: StreamFaults = field(default_factory=StreamFaults)
    cache: StreamFaults = field(default_factory=StreamFaults)
    """The records of the probes in the cache servers."""
    hung_pages: frozenset[str] = frozenset()
    """Pages that accept a connection and never answer: `vllm-0`, `lmcache-2`, `curvine`, …"""
    page_delay_seconds: float = 0.0
    garbage_lines: int = 0
    """Lines no parser understands, put into every metrics page."""
    restarts: tuple[Restart, ...] = ()
    """Read at the start only; a running testbed has `Testbed.restart`."""
    incidents: tuple[Incident, ...] = ()
    """Read at the start only; a running testbed has `Testbed.befall`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedConfig:
    """A deployment to pretend: sizes, speeds, traffic, time.

    The sizes are a demo's: an L1 far smaller than what an hour of the default traffic reuses, under
    a pool that holds most of it.
    """

    __test__: ClassVar[bool] = False

    seed: int = 1
    namespace: str = "default"
    endpoint: str = "demo"
    model: str = "qwen2.5-7b"
    replicas: int = 4
    routing: RoutingPolicy = RoutingPolicy.ROUNDROBIN
    objective: Objective = field(default_factory=Objective)

    block_tokens: int = 32
    chunk_tokens: int = 256
    """Tokens a chunk of L1 and L2; rounded up to whole blocks."""
    bytes_per_token: int = 57_344
    l0_bytes: float = 4 * GIB
    l1_bytes: float = 8 * GIB
    l2_bytes: float = 384 * GIB
    l0_limit_bytes: float | None = 20 * GIB
    l1_limit_bytes: float | None = 96 * GIB
    l2_limit_bytes: float | None = 2048 * GIB
    slots: int = 16
    """Requests an engine serves at once; more wait in its queue."""
    service: ServiceTimes = field(default_factory=ServiceTimes)

    l1_watermark_ratio: float = 0.8
    l1_eviction_ratio: float = 0.2
    """Share of the resident chunks that one eviction round drops."""
    l1_retain_loads: bool = True
    """Keep what L2 handed up in L1 (LMCache's prefetch policy `retain`). LMCache's own default drops it right
    after the read, which leaves an L1 over a shared pool next to useless whatever its size."""
    store_batch_chunks: int = 8
    """Chunks an engine stores at once (one step of chunked prefill); a batch is kept whole or refused."""
    tier_split: bool = True
    """Whether engines say which tier served a load; plain LMCache connectors do not."""
    cache_probe: bool = True
    """Whether the probe runs in the cache servers, whose records say which tier had what."""

    l2_workers: int = 2
    l2_block_bytes: float = 64 * MIB
    """A pool worker with less room than this refuses new chunks."""
    l2_ttl_seconds: float | None = 3600.0
    """Chunks this long after their write are deleted; None: never, as Curvine's defaults have it."""
    l2_ttl_check_seconds: float = 300.0

    mix: Mix = field(default_factory=Mix)
    max_prompt_tokens: int = 24_000

    speed: float = 120.0
    """Virtual seconds a wall second until the present is reached; from there on 1."""
    duration_seconds: float | None = 3600.0
    """Virtual seconds in which requests arrive, ending about now; None: catch up, then go on live."""
    history_seconds: float = 3600.0
    """How far back an unbounded run starts."""
    step_seconds: float = 1.0
    """Virtual seconds of an engine's events and records that go into one batch."""
    ring_batches: int = 4_000
    """Batches a stream can replay."""
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        if problems := list(_problems(self)):
            raise BadSettings(problems)

    @property
    def tokens_per_chunk(self) -> int:
        """Tokens of a chunk as cut: `chunk_tokens` rounded up to whole blocks."""
        return math.ceil(self.chunk_tokens / self.block_tokens) * self.block_tokens

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return self.tokens_per_chunk * self.bytes_per_token

    @property
    def l0_blocks(self) -> int:
        """Blocks an engine reports, the unusable null block among them."""
        return int(self.l0_bytes // (self.block_tokens * self.bytes_per_token))

    @property
    def l1_chunks(self) -> int:
        """Chunks that fit into one replica's L1."""
        return int(self.l1_bytes // self.chunk_bytes)

    def replica_name(self, index: int) -> str:
        """Name of a replica's pod."""
        return f"{self.endpoint}-{index}"


_RULES: tuple[tuple[str, str, Callable[[TestbedConfig], bool]], ...] = (
    ("replicas", "at least 1", lambda c: c.replicas >= 1),
    ("routing", f"one of {', '.join(ROUTERS)}", lambda c: c.routing in ROUTERS),
    ("block_tokens", "at least 1", lambda c: c.block_tokens >= 1),
    ("bytes_per_token", "at least 1", lambda c: c.bytes_per_token >= 1),
    ("slots", "at least 1", lambda c: c.slots >= 1),
    ("l0_bytes", "room for two blocks or more", lambda c: c.l0_blocks >= 2),
    ("l1_bytes", "0 or more", lambda c: c.l1_bytes >= 0),
    ("l2_workers", "at least 1", lambda c: c.l2_workers >= 1),
    ("l1_watermark_ratio", "above 0, at most 1", lambda c: 0 < c.l1_watermark_ratio <= 1),
    ("l1_eviction_ratio", "above 0, at most 1", lambda c: 0 < c.l1_eviction_ratio <= 1),
    ("store_batch_chunks", "at least 1", lambda c: c.store_batch_chunks >= 1),
    ("speed", "at least 1", lambda c: c.speed >= 1),
    ("step_seconds", "above 0", lambda c: c.step_seconds > 0),
    ("ring_batches", "at least 1", lambda c: c.ring_batches >= 1),
    ("duration_seconds", "above 0, or none", lambda c: c.duration_seconds is None or c.duration_seconds > 0),
)


def _problems(config: TestbedConfig) -> list[TierscopeError]:
    return [
        TierscopeError(
            f"a testbed cannot have {name} = {getattr(config, name)}",
            where=f"TestbedConfig.{name}",
            fix=f"give a value that is {wanted}",
        )
        for name, wanted, holds in _RULES
        if not holds(config)
    ]
