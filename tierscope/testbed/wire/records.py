"""The records of a hook inside an engine, field by field as the recorded ones are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tierscope.testbed.model.task import Task

Value = (
    None | bool | int | float | str | Mapping[str, int] | Mapping[str, str] | Sequence[int] | Sequence[bytes]
)
Record = dict[str, Value]

_LOOKUP_NANOSECONDS = 3_000
_ADMISSION_NANOSECONDS = 13_500
_STEP_NANOSECONDS = 1_500
_FINISH_NANOSECONDS = 8_500
_ENCODE_NANOSECONDS = 20_000


class RecordWriter:
    """Watches one engine and writes records; `epoch_unix_seconds` is the unix time of virtual 0."""

    def __init__(
        self,
        put: Callable[[Record], None],
        *,
        epoch_unix_seconds: float,
        model: str,
        block_tokens: int,
        blocks: int,
        tier_split: bool,
        stats_seconds: float = 10.0,
    ) -> None:
        self._put = put
        self._epoch = epoch_unix_seconds
        self._model = model
        self._block_tokens = block_tokens
        self._blocks = blocks
        self._tier_split = tier_split
        self._stats_seconds = stats_seconds
        self._stats_due_seconds = 0.0
        self._calls = {"lookup": 0, "alloc": 0, "meta": 0, "finish": 0}
        self._sent = 0

    def hello(self, at_seconds: float) -> None:
        """The hook is in; counts start at 0."""
        self._calls = dict.fromkeys(self._calls, 0)
        self._sent = 0
        self._stats_due_seconds = at_seconds + self._stats_seconds
        self._write(
            "hello",
            at_seconds,
            {
                "form": "lmcache_mp",
                "rank": 0,
                "block_size": self._block_tokens,
                "model": self._model,
                "num_blocks": self._blocks,
                "async": False,
                "hma_off": False,
            },
        )

    def admitted(self, task: Task, at_seconds: float) -> None:
        """A request got its blocks; what is known of its prompt is said at the first admission only."""
        request = task.request
        self._calls["lookup"] += task.tries + 1
        self._calls["alloc"] += 1 + (task.external > 0)
        record: Record = {
            "rid": request.request_id,
            "attempt": task.attempt,
            "lookups": task.tries + 1,
            "undecided": 1,
            "lookup_wait_s": at_seconds - request.at_seconds,
            "prompt": request.prompt_tokens,
            "total": task.total,
            "local": task.local,
            "offered": task.external,
            "external": task.external,
        }
        if self._tier_split:
            record["split"] = _split(task)
        record |= {
            "async": task.external > 0,
            "skip": False,
            "arrival": self._epoch + request.at_seconds,
        }
        if task.attempt == 0:
            record |= {
                "hashes": request.digests,
                "salt": request.salt,
                "lora": None,
                "session": request.session,
                "trace": {"traceparent": request.traceparent} if request.traceparent else None,
                "ps": [request.prompt_tokens, task.local, task.external],
            }
        self._write("admit", at_seconds, record)

    def loaded(self, task: Task, at_seconds: float, waited_seconds: float) -> None:
        """A load from below is done."""
        self._write("loaded", at_seconds, {"rid": task.request.request_id, "wait_s": waited_seconds})

    def first(self, task: Task, at_seconds: float) -> None:
        """The first token was seen."""
        self._calls["meta"] += 1
        ttft_seconds = at_seconds - task.request.at_seconds
        self._write("first", at_seconds, {"rid": task.request.request_id, "ttft_s": ttft_seconds})

    def finished(self, task: Task, at_seconds: float, *, generated: int, aborted: bool) -> None:
        """A request is over, answered or not."""
        request = task.request
        self._calls["meta"] += generated
        self._calls["finish"] += 1
        self._write(
            "finish",
            at_seconds,
            {
                "rid": request.request_id,
                "status": "FINISHED_ABORTED" if aborted else "FINISHED_LENGTH_CAPPED",
                "prompt": request.prompt_tokens,
                "out": generated,
                "preemptions": task.attempt,
                "admitted": task.admitted_seconds is not None,
                "hashes_total": (request.prompt_tokens + generated) // self._block_tokens,
            },
        )

    def _write(self, kind: str, at_seconds: float, fields: Record) -> None:
        self._put({"t": kind, "ts": self._epoch + at_seconds, **fields})
        self._sent += 1
        if at_seconds >= self._stats_due_seconds:
            self._stats_due_seconds = at_seconds + self._stats_seconds
            self._write("stats", at_seconds, self._stats())

    def _stats(self) -> Record:
        calls = self._calls
        return {
            "ns": {
                "lookup": calls["lookup"] * _LOOKUP_NANOSECONDS,
                "alloc": calls["alloc"] * _ADMISSION_NANOSECONDS,
                "meta": calls["meta"] * _STEP_NANOSECONDS,
                "finish": calls["finish"] * _FINISH_NANOSECONDS,
            },
            "n": dict(calls),
            "errors": 0,
            "dropped": 0,
            "enc_ns": self._sent * _ENCODE_NANOSECONDS,
            "sent": self._sent,
        }


def _split(task: Task) -> Mapping[str, int] | None:
    """The tiers a load came from, as vLLM names them; None when nothing was loaded."""
    parts = {"host": task.l1, "disk": task.l2}
    return {name: tokens for name, tokens in parts.items() if tokens} or None
