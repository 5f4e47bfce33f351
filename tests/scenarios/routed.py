"""Deployments behind a router, recorded by caches and queues that are obviously right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests import workloads as w
from tests.scenarios.serving import Fleet, serve
from tests.scenarios.traffic import Traffic, conversations, shared_prefix, unrelated
from tierscope.advice.document import Recommendation
from tierscope.advice.routing.advisor import Advisor
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.window import Evidence
from tierscope.domain.wiring import GatewayWiring, ScorerWeight, Wiring

FIXED_SECONDS, TOKEN_SECONDS = 0.002, 1e-4
SEEN = 450


@dataclass(frozen=True)
class Routed:
    """Sizes are of one holder, of L0 in blocks, of the others in chunks. Requests come evenly.

    `placed` are the replicas that serve, in turn where it is not given. With `seconds_between` requests wait
    for each other at their replica, one at a time, and TTFT is recorded; without, it is not.
    """

    traffic: Traffic
    routing: RoutingPolicy = RoutingPolicy.ROUNDROBIN
    replicas: int = 4
    l0: int = 256
    l1: int = 128
    placed: Sequence[int] | None = None
    wiring: Wiring | None = None
    seconds_between: float | None = None
    seen: int = SEEN
    deployed: dict[str, object] = field(default_factory=dict)

    def deployment(self) -> Deployment:
        return w.deployment(
            self.l1 * w.CHUNK_BYTES,
            l0_bytes=self.l0 * w.BLOCK_TOKENS * w.BYTES_PER_TOKEN,
            replicas=self.replicas,
            limits=(self.l1 * w.CHUNK_BYTES, None),
            routing=self.routing,
            wiring=self.wiring,
            **self.deployed,
        )

    def evidence(self) -> Evidence:
        chains = self.traffic.chains[: self.seen]
        turn = np.arange(len(chains)) % self.replicas
        engine = turn if self.placed is None else np.array(self.placed[: self.seen])
        served = serve(Fleet(chains, engine), {"l0": self.l0, "l1": self.l1})
        window = w.window(
            chains,
            replicas=self.replicas,
            engine=engine.tolist(),
            hits=(served.l0, served.l1, served.l2),
            seconds=(self.seconds_between or 5.0) * len(chains),
        )
        sessions = np.array(self.traffic.sessions[: self.seen], dtype=np.uint64)
        window = replace(window, session=sessions)
        if self.seconds_between is not None:
            queue, ttft = _in_line(engine, self.seconds_between, window.computed)
            at = window.at_unix_seconds + queue
            window = replace(window, queue_seconds=queue, ttft_seconds=ttft, at_unix_seconds=at)
        return w.evidence(window)

    def advised(self) -> Recommendation:
        return Advisor()(self.evidence(), self.deployment(), now_unix_seconds=w.NOW)


def _in_line(engine: np.ndarray, between: float, computed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Seconds waited, and until the first token, where a replica serves one prompt after the other."""
    noise = np.random.default_rng(5).lognormal(0.0, 0.05, len(computed))
    free = np.zeros(int(engine.max()) + 1)
    queue, ttft = np.zeros(len(computed)), np.zeros(len(computed))
    for i, replica in enumerate(engine.tolist()):
        came = i * between
        begins = max(came, free[replica])
        free[replica] = begins + (FIXED_SECONDS + TOKEN_SECONDS * computed[i]) * noise[i]
        queue[i], ttft[i] = begins - came, free[replica] - came
    return queue, ttft


def talks(at_once: int = 24) -> Traffic:
    """Conversations that share nothing, each with a session of its own."""
    found = conversations(at_once, seen=SEEN)()
    return Traffic(found.chains, [session + 1 for session in found.sessions])


def hot(share: float = 0.8) -> Traffic:
    return shared_prefix(share, seen=SEEN)()


def one_shot() -> Traffic:
    found = unrelated(seen=SEEN)()
    return Traffic(found.chains, list(range(1, len(found.chains) + 1)))


def apps(count: int = 12) -> Traffic:
    """Single turns, each behind the long instructions of one of several applications."""
    of = np.random.default_rng(3).integers(0, count, SEEN)
    chains = [
        np.concatenate((w.chain_hashes(int(app) + 1, 60), w.chain_hashes(1000 + i, 64)[60:]))
        for i, app in enumerate(of)
    ]
    return Traffic(chains, [0] * SEEN)


def by_first(traffic: Traffic, replicas: int) -> list[int]:
    """Where `prefixaware` sends them: whoever had this beginning first, others at random."""
    rng = np.random.default_rng(2)
    first: dict[int, int] = {}
    # 128 characters are two blocks of 16 tokens.
    return [first.setdefault(int(chain[1]), int(rng.integers(replicas))) for chain in traffic.chains]


def by_session(traffic: Traffic, replicas: int) -> list[int]:
    """Each session on one replica."""
    return [session % replicas for session in traffic.sessions]


def wired(path: str | None = "/v1/chat/completions", **more: object) -> Wiring:
    return Wiring(invocation_path=path, routing_is_switched_on=True, hash_seeds=("0",), **more)  # type: ignore[arg-type]


def behind_gateway(**weights: float) -> Wiring:
    scored = tuple(ScorerWeight(name, weight) for name, weight in weights.items())
    return wired(gateway=GatewayWiring("gateways", "shared", 1, scored))
