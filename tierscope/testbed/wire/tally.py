"""What the hook records that went out add up to: the truth a reader of the streams is held to."""

from __future__ import annotations

from collections.abc import Iterable

from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.testbed.wire.records import Record


class Tally:
    """Reads one replica's records as they are sent and sums first admissions that reached a first token."""

    def __init__(self) -> None:
        self.tokens = NO_TOKENS
        self.served = 0
        self._admitted: dict[str, TokenSplit] = {}

    def read(self, records: Iterable[Record]) -> None:
        """Take in records in the order they were sent."""
        for record in records:
            kind, request_id = record["t"], str(record.get("rid"))
            if kind == "admit" and record["attempt"] == 0:
                self._admitted[request_id] = _tokens(record)
            elif kind == "first" and request_id in self._admitted:
                self.tokens += self._admitted.pop(request_id)
                self.served += 1
            elif kind == "finish":
                self._admitted.pop(request_id, None)
            elif kind == "hello":
                self._admitted.clear()


def _tokens(record: Record) -> TokenSplit:
    prompt, local, external = (_int(record[name]) for name in ("prompt", "local", "external"))
    split = record.get("split") or {}
    l1, l2 = (_int(split.get(name, 0)) for name in ("host", "disk")) if isinstance(split, dict) else (0, 0)
    return TokenSplit(
        prompt, l0=local, l1=l1, l2=l2, external=external - l1 - l2, computed=prompt - local - external
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a token count is {value!r}")
    return value
