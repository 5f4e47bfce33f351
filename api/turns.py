"""Long answers one at a time: who waits for a turn holds no thread, so that polls never wait."""

from __future__ import annotations

import asyncio
import functools
import time
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


class Refreshed(Generic[Answer]):
    """Answers to polls by what was asked: one question to the store at a time, however many ask it.

    What is younger than `keep_seconds` is given at once; what is younger than `stale_seconds` is given while
    it is asked for anew, so that a busy collector slows no poll down. An error is everybody's and ends that;
    an answer of None is not kept. For one event loop.
    """

    def __init__(
        self, keep_seconds: float, stale_seconds: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._keep_seconds = keep_seconds
        self._stale_seconds = stale_seconds
        self._monotonic = monotonic
        self._answers: dict[Hashable, tuple[float, Answer]] = {}
        self._asking: dict[Hashable, asyncio.Task[Answer]] = {}

    async def get(self, asked: Hashable, work: Callable[[], Answer]) -> Answer:
        """Return an answer that is young enough; raises what the work raises."""
        known = self._answers.get(asked)
        age = 0.0 if known is None else self._monotonic() - known[0]
        if known is not None and age < self._keep_seconds:
            return known[1]
        task = self._asking.get(asked)
        if task is None:
            task = asyncio.ensure_future(run_in_threadpool(work))
            self._asking[asked] = task
            task.add_done_callback(functools.partial(self._done, asked, self._monotonic()))
        if known is not None and age < self._stale_seconds:
            return known[1]
        return await asyncio.shield(task)  # who leaves takes the answer from nobody else

    def _done(self, asked: Hashable, since: float, task: asyncio.Task[Answer]) -> None:
        del self._asking[asked]
        if task.cancelled() or task.exception() is not None:
            self._answers.pop(asked, None)
        elif task.result() is not None:
            self._answers[asked] = (since, task.result())
