"""A request inside an engine, and what an engine tells about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tierscope.testbed.model.l1 import Lookup
from tierscope.testbed.workload.request import Request


class Phase(Enum):
    """Where a request stands; from LOADING to DECODING it holds a slot and blocks."""

    WAITING = "waiting"
    LOADING = "loading"
    PREFILL = "prefill"
    DECODING = "decoding"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Task:
    """One request of one engine. Tokens and seconds; `epoch` outdates what was scheduled before it rose."""

    request: Request
    phase: Phase = Phase.WAITING
    attempt: int = 0
    epoch: int = 0
    tries: int = 0
    """How often the engine looked for room since the last admission, this one included."""
    blocks: list[int] = field(default_factory=list)
    sealed: int = 0
    """Leading blocks that can be hit."""
    total: int = 0
    """Prompt and what was generated before this admission."""
    local: int = 0
    l1: int = 0
    l2: int = 0
    lookup: Lookup | None = None
    """The lookup that still holds chunks in L1."""
    found_chunks: int = 0
    """Leading chunks that L1 and L2 had at this admission."""
    credited: tuple[int, int, int] = (0, 0, 0)
    """L0, L1 and L2 tokens of the first admission, the one that counts."""
    admitted_seconds: float | None = None
    first_seconds: float | None = None
    decode_from_seconds: float = 0.0
    """When the token after `total` came or comes out."""
    decode_seconds_per_token: float = 0.0

    @property
    def external(self) -> int:
        """Tokens loaded through the connector."""
        return self.l1 + self.l2

    def generated(self, now_seconds: float) -> int:
        """Tokens generated so far."""
        before = self.total - self.request.prompt_tokens
        if self.phase is not Phase.DECODING:
            return max(before, 0)
        steps = int((now_seconds - self.decode_from_seconds) / self.decode_seconds_per_token + 1e-9)
        return min(before + 1 + steps, self.request.output_tokens)


class Observer(Protocol):
    """What sits in an engine and watches; times are virtual seconds."""

    def admitted(self, task: Task, at_seconds: float) -> None:
        """A request got its blocks; `attempt` tells a re-admission after a preemption."""

    def loaded(self, task: Task, at_seconds: float, waited_seconds: float) -> None:
        """Its loads are done."""

    def first(self, task: Task, at_seconds: float) -> None:
        """Its first token is out."""

    def finished(self, task: Task, at_seconds: float, *, generated: int, aborted: bool) -> None:
        """It ended; `admitted_seconds` is None when it never got blocks."""
