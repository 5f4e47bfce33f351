"""Long answers one at a time: who waits for a turn holds no thread, so that polls never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Answer = TypeVar("Answer")


class OneAtATime:
    """Runs one piece of work at a time, in a thread, in the order of asking. For one event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Wait for the turn, then do the work and return what it returns or raises."""
        async with self._turn:
            return await run_in_threadpool(work)


class Kept(Generic[Answer]):
    """The newest answers by what was asked, for `keep_seconds` each and at most `most` of them."""

    def __init__(self, clock: Callable[[], float], keep_seconds: float, most: int = 64) -> None:
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._most = most
        self._answers: dict[Hashable, tuple[float, Answer]] = {}

    def get(self, asked: Hashable, work: Callable[[], Answer]) -> Answer:
        """Return the kept answer, or do the work and keep what it returns; errors are not kept."""
        now = self._clock()
        known = self._answers.get(asked)
        if known is not None and 0 <= now - known[0] < self._keep_seconds:
            return known[1]
        answer = work()
        self._answers.pop(asked, None)
        while len(self._answers) >= self._most:
            self._answers.pop(next(iter(self._answers)))
        self._answers[asked] = (now, answer)
        return answer
