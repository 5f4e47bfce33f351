"""The built-in traffic: agents, chats, questions about documents, and prompts that share nothing."""

from __future__ import annotations

import bisect
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from tierscope.testbed.config import Mix, TestbedConfig
from tierscope.testbed.workload.hashes import Chain, mix
from tierscope.testbed.workload.request import Request
from tierscope.testbed.workload.session import Prefix, Session, Style

AGENT = Style(
    kind="agent", mean_turns=12, first_tokens=900, added_tokens=500, output_tokens=120, think_seconds=6
)
CHAT = Style(
    kind="chat", mean_turns=5, first_tokens=150, added_tokens=90, output_tokens=220, think_seconds=35
)
DOCUMENT = Style(
    kind="document", mean_turns=1.3, first_tokens=60, added_tokens=40, output_tokens=120, think_seconds=25
)
UNRELATED = Style(
    kind="unrelated", mean_turns=1, first_tokens=1100, added_tokens=1, output_tokens=150, think_seconds=1
)

AGENT_SYSTEMS_TOKENS = (3200, 2100, 4050)
CHAT_SYSTEMS_TOKENS = (820, 1290)
DOCUMENT_SYSTEM_TOKENS = 510
DOCUMENTS = 240
DOCUMENT_MEDIAN_TOKENS = 3600
TENANTS = 3


@dataclass(frozen=True, slots=True)
class _Kind:
    style: Style
    per_second: float
    prefix: Callable[[random.Random, int], Prefix]


class MixedWorkload:
    """Sessions of four kinds, each kind a Poisson stream; a session's turns wait for its answers.

    The same seed makes the same sessions whatever the engines do; only when a turn comes depends on
    when the turn before it was answered. Requests are asked for until `until_seconds` (None: for ever).
    """

    @classmethod
    def of(cls, config: TestbedConfig) -> MixedWorkload:
        """The traffic of a testbed's configuration, for as long as it lasts."""
        return cls(
            config.mix,
            seed=config.seed,
            block_tokens=config.block_tokens,
            max_prompt_tokens=config.max_prompt_tokens,
            until_seconds=config.duration_seconds,
        )

    def __init__(
        self,
        mix_: Mix,
        *,
        seed: int,
        block_tokens: int,
        max_prompt_tokens: int,
        until_seconds: float | None,
    ) -> None:
        self._mix = mix_
        self._seed = mix(seed, 0)
        self._block_tokens = block_tokens
        self._max_prompt_tokens = max_prompt_tokens
        self._until_seconds = until_seconds
        self._count = itertools.count()
        self._live: dict[str, Session] = {}
        self._prefixes: dict[tuple[str, int, int], Prefix] = {}
        self._popularity = list(itertools.accumulate(1 / rank for rank in range(1, DOCUMENTS + 1)))
        self._kinds = [
            _Kind(AGENT, mix_.agents_per_second, self._agent_prefix),
            _Kind(CHAT, mix_.chats_per_second, self._chat_prefix),
            _Kind(DOCUMENT, mix_.documents_per_second, self._document_prefix),
            _Kind(UNRELATED, mix_.unrelated_per_second, self._no_prefix),
        ]
        self._rngs = [random.Random(mix(self._seed, index)) for index in range(len(self._kinds))]
        self._starts = [
            (self._rngs[index].expovariate(kind.per_second), index)
            for index, kind in enumerate(self._kinds)
            if kind.per_second > 0
        ]
        heapq.heapify(self._starts)

    def next_arrival(self) -> Request | None:
        """The first turn of the next session to start."""
        while self._starts:
            at_seconds, index = self._starts[0]
            if self._until_seconds is not None and at_seconds >= self._until_seconds:
                return None
            rng = self._rngs[index]
            heapq.heapreplace(
                self._starts, (at_seconds + rng.expovariate(self._kinds[index].per_second), index)
            )
            session = self._new_session(self._kinds[index], rng)
            if request := self._turn(session, at_seconds):
                self._live[session.name] = session
                return request
        return None

    def follow_up(self, request: Request, finished_seconds: float) -> Request | None:
        """The session's next turn after a think time; a client that went away never comes back."""
        session = self._live.pop(request.session)
        if request.abort_after_seconds is not None:
            return None
        at_seconds = finished_seconds + session.think_seconds()
        if self._until_seconds is not None and at_seconds >= self._until_seconds:
            return None
        if follow_up := self._turn(session, at_seconds):
            self._live[session.name] = session
        return follow_up

    def _turn(self, session: Session, at_seconds: float) -> Request | None:
        number = next(self._count)
        return session.next_request(
            at_seconds,
            request_id=f"chatcmpl-{session.style.kind}-{number}-{mix(self._seed, number) >> 32:08x}",
            max_prompt_tokens=self._max_prompt_tokens,
            abort_ratio=self._mix.abort_ratio,
            traced=self._mix.traced_ratio,
        )

    def _new_session(self, kind: _Kind, rng: random.Random) -> Session:
        seed = rng.getrandbits(63)
        tenant = 1 + rng.randrange(TENANTS) if rng.random() < self._mix.salted_ratio else 0
        session = Session(
            f"{kind.style.kind}-{seed:016x}",
            kind.style,
            kind.prefix(rng, tenant),
            block_tokens=self._block_tokens,
            seed=seed,
        )
        session.salt = f"tenant-{tenant}" if tenant else None
        return session

    def _shared(
        self, name: str, number: int, tenant: int, tokens: int, after: Prefix | None = None
    ) -> Prefix:
        """A shared text, built once for every tenant (a salt changes every hash)."""
        key = (name, number, tenant)
        if key not in self._prefixes:
            root = mix(self._seed, tenant) if after is None else after.root
            chain = after.chain.prefix(len(after.chain)) if after else Chain()
            total = tokens + (after.tokens if after else 0)
            content = mix(mix(self._seed, number), int.from_bytes(name.encode(), "big"))
            chain.grow(root=root, content=content, blocks=total // self._block_tokens)
            self._prefixes[key] = Prefix(total, root, chain)
        return self._prefixes[key]

    def _agent_prefix(self, rng: random.Random, tenant: int) -> Prefix:
        number = rng.randrange(len(AGENT_SYSTEMS_TOKENS))
        return self._shared("agent", number, tenant, AGENT_SYSTEMS_TOKENS[number])

    def _chat_prefix(self, rng: random.Random, tenant: int) -> Prefix:
        number = rng.randrange(len(CHAT_SYSTEMS_TOKENS))
        return self._shared("chat", number, tenant, CHAT_SYSTEMS_TOKENS[number])

    def _document_prefix(self, rng: random.Random, tenant: int) -> Prefix:
        """A document behind the common instructions; the n-th most popular is asked for 1/n as often."""
        number = bisect.bisect(self._popularity, rng.random() * self._popularity[-1])
        tokens = round(DOCUMENT_MEDIAN_TOKENS * random.Random(mix(self._seed, number)).lognormvariate(0, 0.5))
        system = self._shared("instructions", 0, tenant, DOCUMENT_SYSTEM_TOKENS)
        return self._shared("document", number, tenant, tokens, after=system)

    def _no_prefix(self, _: random.Random, tenant: int) -> Prefix:
        return Prefix(0, mix(self._seed, tenant), Chain())
