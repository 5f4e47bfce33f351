"""One replica's engine: a queue, a few slots, and what happens to a request between the two."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tierscope.testbed.model.counters import EngineCounters
from tierscope.testbed.model.l0 import BlockPool
from tierscope.testbed.model.l1 import Cache
from tierscope.testbed.model.schedule import Schedule
from tierscope.testbed.model.service import Service
from tierscope.testbed.model.task import Observer, Phase, Task
from tierscope.testbed.workload.request import Request


class Engine:
    """Admits in order of arrival, decodes block by block, and preempts the youngest when memory runs out.

    A prompt is looked up in L0, then in L1 and L2 from its start; L0 is credited first, and what the
    lower tiers serve beyond it next. Blocks computed here can be hit at once, loaded ones when their
    load ends, generated ones when they are full. At most all but one token of a prompt may be hit.
    """

    def __init__(
        self,
        *,
        schedule: Schedule,
        usable_blocks: int,
        block_tokens: int,
        slots: int,
        cache: Cache,
        service: Service,
        observer: Observer,
        done: Callable[[Request, float], None],
    ) -> None:
        self.counters = EngineCounters()
        self.pool = BlockPool(usable_blocks)
        self.cache = cache
        self._schedule = schedule
        self._block_tokens = block_tokens
        self._chunk_blocks = cache.chunk_tokens // block_tokens
        self.slots = slots
        self.service = service
        self.chunk_seed = 0
        """Changes the names of chunks in L1 and L2; engines that differ in it share none."""
        self._observer = observer
        self._done = done
        self._waiting: deque[Task] = deque()
        self._running: list[Task] = []
        """Oldest admission first."""

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests with a slot."""
        return len(self._running)

    def fits(self, request: Request) -> bool:
        """Whether the engine could ever hold this request."""
        return request.prompt_tokens + request.output_tokens <= self.pool.blocks * self._block_tokens

    def submit(self, request: Request) -> None:
        """Take a request in, now."""
        task = Task(request)
        self._waiting.append(task)
        if request.abort_after_seconds is not None:
            leaves_seconds = self._schedule.now_seconds + request.abort_after_seconds
            self._schedule.at(leaves_seconds, partial(self._abort, task))
        self._admit()

    def hang_up(self) -> None:
        """Let every client go away at once."""
        for task in [*self._waiting, *self._running]:
            self._abort(task)

    def stop(self) -> list[Request]:
        """Forget everything at once, as a dying process does; returns the requests it took along."""
        lost = [*self._running, *self._waiting]
        for task in lost:
            self._end_lookup(task)
            task.phase = Phase.ENDED
            task.epoch += 1
        self._waiting.clear()
        self._running.clear()
        return [task.request for task in lost]

    # Admission

    def _admit(self) -> None:
        """Admit from the head of the queue while there is a slot and room; no one overtakes."""
        while self._waiting and len(self._running) < self.slots:
            task = self._waiting[0]
            task.tries += 1
            if not self._take_blocks(task):
                return
            self._waiting.popleft()
            self._running.append(task)
            self._look_below(task)
            self._start(task)

    def _take_blocks(self, task: Task) -> bool:
        request, size = task.request, self._block_tokens
        total = task.total = max(task.total, request.prompt_tokens)
        hit = self.pool.leading(request.hashes, (total - 1) // size)
        blocks = self.pool.take(request.hashes, hit, -(-total // size) - hit)
        if blocks is None:
            return False
        task.blocks = blocks
        task.sealed = hit
        task.local = hit * size
        return True

    def _look_below(self, task: Task) -> None:
        """Ask L1 and L2 for the whole prompt; only what lies beyond L0 is used."""
        chunk_tokens = self.cache.chunk_tokens
        chunks = self._chunks(task.request, task.total)
        now = self._schedule.now_seconds
        lookup = task.lookup = self.cache.lookup(chunks, now)
        if self.cache.watch:
            self.cache.watch.looked_up(task.request.request_id, task.attempt, chunks, lookup, now)
        # When everything was found the last token is computed all the same.
        task.found_chunks = lookup.hit
        end = min(lookup.hit * chunk_tokens, task.total - 1)
        external = max(end - task.local, 0)
        task.l1 = max(min(lookup.l1 * chunk_tokens, end) - task.local, 0)
        task.l2 = external - task.l1

    def _start(self, task: Task) -> None:
        now = self._schedule.now_seconds
        task.admitted_seconds = now
        if task.attempt == 0:
            task.credited = (task.local, task.l1, task.l2)
            counters = self.counters
            counters.queried += task.request.prompt_tokens
            counters.hit_l0 += task.local
            counters.external_queried += task.request.prompt_tokens - task.local
            counters.hit_l1 += task.l1
            counters.hit_l2 += task.l2
        self._observer.admitted(task, now)
        task.tries = 0
        if task.external:
            task.phase = Phase.LOADING
            wait = self.service.load_seconds(task.l1, task.l2)
            self._step(wait, task, partial(self._loaded, task, wait))
        else:
            self._prefill(task)

    def _loaded(self, task: Task, waited_seconds: float) -> None:
        self._observer.loaded(task, self._schedule.now_seconds, waited_seconds)
        self._prefill(task)

    def _prefill(self, task: Task) -> None:
        self._end_lookup(task)
        task.phase = Phase.PREFILL
        self._seal(task, task.total // self._block_tokens)
        cached = task.local + task.external
        seconds = self.service.prefill_seconds(task.total - cached, cached)
        self._step(seconds, task, partial(self._prefilled, task))

    # Answering

    def _prefilled(self, task: Task) -> None:
        now = self._schedule.now_seconds
        if task.first_seconds is None:
            task.first_seconds = now
            self._count_first(task)
            self._observer.first(task, now)
        self._store_below(task)
        task.phase = Phase.DECODING
        task.decode_from_seconds = now
        task.decode_seconds_per_token = self.service.decode_seconds_per_token()
        self._decode(task, task.total)

    def _count_first(self, task: Task) -> None:
        counters, request = self.counters, task.request
        local, l1, l2 = task.credited
        counters.observe_ttft(self._schedule.now_seconds - request.at_seconds)
        counters.prompt += request.prompt_tokens
        counters.local_hit += local
        counters.external_transfer += l1 + l2
        counters.local_compute += request.prompt_tokens - local - l1 - l2

    def _store_below(self, task: Task) -> None:
        """Store the prompt's whole chunks that the lookup did not find; the tail is never stored."""
        chunks = self._chunks(task.request, task.request.prompt_tokens)
        self.cache.store(chunks[task.found_chunks :], self._schedule.now_seconds)

    def _decode(self, task: Task, computed: int) -> None:
        """Go on from `computed` tokens in the cache to the end of their block or of the answer."""
        request, size = task.request, self._block_tokens
        end = request.prompt_tokens + request.output_tokens - 1
        if computed == end:
            self._finish(task, aborted=False)
            return
        if computed % size == 0 and not self._extend(task):
            return
        target = min((computed // size + 1) * size, end)
        seconds = task.decode_from_seconds + (target - task.total) * task.decode_seconds_per_token
        self._step(seconds - self._schedule.now_seconds, task, partial(self._decoded, task, target))

    def _decoded(self, task: Task, computed: int) -> None:
        self._seal(task, computed // self._block_tokens)
        self._decode(task, computed)

    def _extend(self, task: Task) -> bool:
        """Give a request one more block, preempting the youngest for it; False if that was itself."""
        while (more := self.pool.take((), 0, 1)) is None:
            victim = next(other for other in reversed(self._running) if other.phase is not Phase.LOADING)
            self._preempt(victim)
            if victim is task:
                return False
        task.blocks += more
        return True

    def _preempt(self, task: Task) -> None:
        """Take a request's blocks away; it waits at the head of the queue with what it has said so far."""
        task.total = task.request.prompt_tokens + task.generated(self._schedule.now_seconds)
        self._leave(task)
        task.phase = Phase.WAITING
        task.attempt += 1
        self.counters.preemptions += 1
        self._waiting.appendleft(task)

    # Ends

    def _abort(self, task: Task) -> None:
        """The client went away."""
        if task.phase is Phase.ENDED:
            return
        self._finish(task, aborted=True)

    def _finish(self, task: Task, *, aborted: bool) -> None:
        now = self._schedule.now_seconds
        generated = task.generated(now)
        if task.phase is Phase.WAITING:
            self._waiting.remove(task)
        else:
            self._leave(task)
            self.cache.touch(self._chunks(task.request, task.request.prompt_tokens))
        task.phase = Phase.ENDED
        self.counters.generated += generated
        if not aborted:
            self.counters.finished["length"] += 1
        self._observer.finished(task, now, generated=generated, aborted=aborted)
        self._done(task.request, now)
        self._admit()

    def _leave(self, task: Task) -> None:
        """Give slot and blocks back; what was scheduled for the request is void."""
        self._end_lookup(task)
        self.pool.release(task.blocks)
        task.blocks = []
        self._running.remove(task)
        task.epoch += 1

    # Small parts

    def _end_lookup(self, task: Task) -> None:
        if task.lookup is not None:
            self.cache.release(task.lookup, self._schedule.now_seconds)
            task.lookup = None

    def _chunks(self, request: Request, tokens: int) -> Sequence[int]:
        """Keys of the whole chunks of the first tokens: each is its last block's hash."""
        keys = request.hashes[self._chunk_blocks - 1 : tokens // self._block_tokens : self._chunk_blocks]
        return [key ^ self.chunk_seed for key in keys] if self.chunk_seed else keys

    def _seal(self, task: Task, blocks: int) -> None:
        """Let a request's first blocks be hit, those that are not yet."""
        first, hashes = task.sealed, task.request.hashes
        self.pool.seal(
            task.blocks[first:blocks],
            hashes[first:blocks],
            parent=hashes[first - 1] if first else None,
            salt=None if first else task.request.salt,
        )
        task.sealed = max(first, blocks)

    def _step(self, seconds: float, task: Task, call: Callable[[], None]) -> None:
        """Go on with a request after a time, unless it was preempted or ended by then."""
        epoch = task.epoch

        def unless_outdated() -> None:
            if task.epoch == epoch:
                call()

        self._schedule.at(self._schedule.now_seconds + seconds, unless_outdated)
