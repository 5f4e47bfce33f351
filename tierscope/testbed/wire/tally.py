"""What the records that went out add up to: the truth a reader of the streams is held to."""

from __future__ import annotations

from collections.abc import Iterable

from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.testbed.wire.records import Record


class Tally:
    """Reads one replica's records as they are sent and sums first admissions that reached a first token.

    What an admission loaded is L1's or L2's as its own record says, or as the cache server's record of its
    lookup does, whichever stream goes out first; external until one of them did.
    """

    def __init__(self) -> None:
        self.served = 0
        self._settled = NO_TOKENS
        self._unsplit: dict[str, TokenSplit] = {}
        self._admitted: dict[str, TokenSplit] = {}
        self._l1_found: dict[str, int] = {}

    @property
    def tokens(self) -> TokenSplit:
        """The sum so far."""
        return sum(self._unsplit.values(), self._settled)

    def read(self, records: Iterable[Record]) -> None:
        """Take in the hook's records in the order they were sent."""
        for record in records:
            kind, request_id = record["t"], str(record.get("rid"))
            if kind == "admit" and record["attempt"] == 0:
                self._admitted[request_id] = _tokens(record)
            elif kind == "first" and request_id in self._admitted:
                self._unsplit[request_id] = self._admitted.pop(request_id)
                self._settle(request_id)
                self.served += 1
            elif kind == "finish":
                self._admitted.pop(request_id, None)
            elif kind == "hello":
                self._admitted.clear()

    def read_cache(self, records: Iterable[Record]) -> None:
        """Take in the cache server's records."""
        for record in records:
            if record["t"] == "lookup" and record["k"] == 0:
                request_id = str(record["rid"])
                self._l1_found[request_id] = _int(record["l1_hit_tokens"])
                self._settle(request_id)

    def _settle(self, request_id: str) -> None:
        """Split a served admission, if it can be by now."""
        tokens, found = self._unsplit.get(request_id), self._l1_found.get(request_id)
        if tokens is None or (tokens.external and found is None):
            return
        del self._unsplit[request_id]
        if tokens.external and found is not None:
            l1 = min(max(found - tokens.l0, 0), tokens.external)
            l2 = tokens.external - l1
            tokens = TokenSplit(tokens.prompt, tokens.l0, l1, l2, computed=tokens.computed)
        self._l1_found.pop(request_id, None)
        self._settled += tokens
        self.settled(request_id, tokens)

    def settled(self, request_id: str, tokens: TokenSplit) -> None:
        """Hook: the split of a served request will not change any more."""


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
