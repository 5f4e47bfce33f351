"""The measurement itself: prompts asked one at a time, each stage for all of them before the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tierscope.cli.measuring.plan import Emptying, Plan, Stage
from tierscope.cli.measuring.replica import Answer
from tierscope.cli.measuring.witness import Hearing
from tierscope.domain.errors import BadInput
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Origin

WARM_UPS = 2
HITS = (Origin.L0, Origin.L1, Origin.L2, Origin.EXTERNAL)
FILLER_SHARE = 1.1
"""Filler by the size of L0: running requests hold a part of it."""


class Asked(Protocol):
    """A replica that can be asked."""

    def ask(self, prompt: Sequence[int], output_tokens: int) -> Answer:
        """Ask for a continuation."""

    def reset_l0(self) -> None:
        """Empty L0."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One prompt in one stage. `split` is None where nobody could tell which tier served it."""

    stage: Stage
    length: int
    repeat: int
    ttft_seconds: float
    prompt_tokens: int
    cached_tokens: int | None
    split: TokenSplit | None

    @property
    def served_from(self) -> Origin | None:
        """The tier that served most of what was not computed; None where nobody could tell.

        Not the outermost: of a prompt of whole chunks that L0 has, vLLM loads the last block from below.
        """
        if self.split is not None:
            return max(HITS, key=self.split.of) if self.hit_tokens else Origin.COMPUTED
        if self.cached_tokens is None:
            return None
        return Origin.EXTERNAL if self.cached_tokens else Origin.COMPUTED

    @property
    def is_as_meant(self) -> bool:
        """Whether it may stand for its stage: served from there, or cached of a tier that nobody names."""
        found = self.served_from
        if found is Origin.EXTERNAL:
            return self.stage is not Stage.COLD
        return found is self.stage.origin

    @property
    def hit_tokens(self) -> int | None:
        """Tokens that were not computed, by the witness or the engine's own word."""
        if self.split is not None:
            return self.split.prompt - self.split.computed
        return self.cached_tokens


@dataclass(slots=True)
class Measurement:
    """Timings as they come, and what was not done and why."""

    timings: list[Timing] = field(default_factory=list)
    left_out: dict[Stage, str] = field(default_factory=dict)
    l2_loads: tuple[float, float] | None = None
    """Seconds and bytes of loads from L2 while the other replica was asked."""


@dataclass(slots=True)
class Runner:
    """Measures a plan on two replicas: the first one writes, the second one reads.

    `l0_tokens` is the size of the first one's L0, None where nobody knows; `loads` tells seconds and bytes
    loaded from L2 so far, `clear_l1` empties the second one's L1.
    """

    plan: Plan
    replicas: tuple[Asked, Asked]
    hearing: Hearing | None
    l0_tokens: int | None
    tell: Callable[[str], None]
    loads: Callable[[], tuple[float, float]] | None = None
    clear_l1: Callable[[], None] | None = None
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> Measurement:
        """Ask everything; raises `SourceUnreadable` when a replica cannot be asked."""
        found = Measurement()
        for index, replica in enumerate(self.replicas):
            for number in range(WARM_UPS):
                replica.ask(self.plan.warm_up(index, number), self.plan.output_tokens)
        self.tell("computed, then from L0")
        for length, repeat in self._prompts():
            found.timings.append(self._time(Stage.COLD, length, repeat, 0))
            found.timings.append(self._time(Stage.L0, length, repeat, 0))
        self._l1(found)
        self.sleep(self.plan.settle_seconds)  # what was written last is on its way to L2
        if self.clear_l1 is not None:
            self.clear_l1()
        self.tell("from L2, by the other replica")
        before = self.loads() if self.loads is not None else None
        found.timings += [self._time(Stage.L2, length, repeat, 1) for length, repeat in self._prompts()]
        if self.loads is not None and before is not None:
            seconds, size_bytes = self.loads()
            found.l2_loads = seconds - before[0], size_bytes - before[1]
        return found

    def _l1(self, found: Measurement) -> None:
        reason = self._empty_l0()
        if reason is not None:
            found.left_out[Stage.L1] = reason
            return
        self.tell("from L1")
        found.timings += [self._time(Stage.L1, length, repeat, 0) for length, repeat in self._prompts()]

    def _empty_l0(self) -> str | None:
        """Empty the first replica's L0; return why it was not."""
        if self.plan.emptying is Emptying.NONE:
            return "L0 was not to be emptied"
        if self.plan.emptying is Emptying.ENDPOINT:
            self.replicas[0].reset_l0()
            return None
        if self.l0_tokens is None:
            return "the size of L0 is not known: give it with --l0-tokens"
        prompts = -(-int(self.l0_tokens * FILLER_SHARE) // max(self.plan.lengths))
        self.tell(f"{prompts} prompts to fill L0")
        for number in range(prompts):
            self.replicas[0].ask(self.plan.filler(number), 1)
        return None

    def _prompts(self) -> list[tuple[int, int]]:
        """Lengths and repeats, all lengths of one repeat before the next: a slow minute hits all alike."""
        return [(length, repeat) for repeat in range(self.plan.repeats) for length in self.plan.lengths]

    def _time(self, stage: Stage, length: int, repeat: int, replica: int) -> Timing:
        prompt = self.plan.prompt(length, repeat)
        if self.hearing is not None:
            self.hearing.begin(replica)
        answer = self.replicas[replica].ask(prompt, self.plan.output_tokens)
        if answer.prompt_tokens != length:
            raise BadInput(
                f"a prompt of {length} tokens was taken for one of {answer.prompt_tokens}",
                where=f"replica {replica}",
                fix="ask the engine itself: something before it changes prompts",
            )
        split = None if self.hearing is None else self.hearing.end(replica, length)
        return Timing(
            stage, length, repeat, answer.ttft_seconds, answer.prompt_tokens, answer.cached_tokens, split
        )
