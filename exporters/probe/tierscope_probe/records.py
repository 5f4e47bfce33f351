"""The records the probe sends: plain dicts, one kind a function, `t` names the kind.

Times (`ts`, `arrival`) are unix seconds, durations end in `_s` (seconds), everything counted is tokens
unless its name says otherwise. Session ids and cache salts leave the engine as digests only.

The functions take values that no longer change, because they run on the sender's thread, after the fact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from tierscope_probe.engine import EngineFacts

Record = dict[str, object]

Draft = tuple[Callable[..., "Record | list[Record]"], tuple[object, ...]]
"""A record to be: one of the functions below, and its arguments. Another source may make several at once."""

TRACE_HEADERS = ("traceparent", "tracestate")

SUMMARY_FIELDS = {
    "rid": "request_id",
    "prompt": "num_prompt_tokens",
    "cached": "num_cached_tokens",
    "out": "num_generation_tokens",
    "preemptions": "num_preemptions",
    "e2e_s": "e2e_latency",
    "queued_s": "queued_time",
    "prefill_s": "prefill_time",
    "decode_s": "decode_time",
}
"""Our name: the attribute of vLLM's FinishedRequestStats."""


def hello(facts: EngineFacts, form: str, at: float, versions: Mapping[str, str]) -> Record:
    """Who is speaking: sent first, and again whenever a reader may have missed it.

    `block_size` is the number of tokens one entry of `hashes` stands for.
    """
    return {
        "t": "hello",
        "ts": at,
        "form": form,
        "rank": facts.rank,
        "block_size": facts.block_tokens,
        "model": facts.model,
        "num_blocks": facts.num_blocks,
        "async": facts.asynchronous,
        "hma_off": facts.hybrid_manager_off,
        "versions": dict(versions),
    }


def admit(
    request_id: str,
    at: float,
    attempt: int,
    tokens: tuple[int, int, int, int],
    lookup: tuple[int, int, float, int | None, bool],
    split: Mapping[object, int] | None,
    prefill: tuple[int, int, int] | None,
    origin: tuple[float, bool],
) -> Record:
    """One admission: the prompt's tokens by origin, as the engine will count them.

    `tokens` are (prompt, prompt and output, local, external). `lookup` is (lookups, undecided ones, time of
    the first, tokens offered in the last, whether they load asynchronously); 0 lookups: none was seen.
    `prefill` is the engine's own count of the first admission (prompt, local, external), the source of its
    counters; attempts above 0 are not in them. `origin` is (arrival, whether the request skips the cache).
    """
    prompt, total, local, external = tokens
    record: Record = {"t": "admit", "ts": at, "rid": request_id, "attempt": attempt}
    lookups, undecided, looked_at, offered, loads_async = lookup
    if lookups:
        record["lookups"] = lookups
        record["undecided"] = undecided
        record["lookup_wait_s"] = max(0.0, at - looked_at)  # wall clocks may step back
        record["offered"] = offered
        record["async"] = loads_async
    record["prompt"] = prompt
    record["total"] = total
    record["local"] = local
    record["external"] = external
    record["split"] = _tiers(split)
    record["arrival"], record["skip"] = origin
    if prefill is not None:
        record["ps"] = prefill
    return record


def first_admit(
    identity: tuple[Sequence[object] | None, object, object, object, object], *args: object
) -> Record:
    """A request's first admission, which also says what the request is.

    `identity` is (block hashes, cache salt, LoRA request, session id, trace headers), `args` are those of
    `admit`. The hashes are of the prompt's full blocks, None when not known; the sender shortens them.
    """
    hashes, salt, adapter, session, headers = identity
    record = admit(*args)  # type: ignore[arg-type]  # as the observer drafts them
    record["hashes"] = hashes
    record["salt"] = digest(salt)
    record["lora"] = getattr(adapter, "lora_name", None)
    record["session"] = digest(session)
    record["trace"] = _trace(headers)
    return record


def loaded(request_id: str, at: float, wait_s: float) -> Record:
    """An asynchronous load through the connector ended, `wait_s` after the admission."""
    return {"t": "loaded", "ts": at, "rid": request_id, "wait_s": max(0.0, wait_s)}


def first(request_id: str, at: float, arrival: float) -> Record:
    """The scheduler saw the first token; `ttft_s` counts from the frontend's arrival time."""
    return {"t": "first", "ts": at, "rid": request_id, "ttft_s": max(0.0, at - arrival)}


def finish(
    request_id: str,
    at: float,
    status: object,
    prompt: int,
    out: int,
    preemptions: int,
    admitted: bool,
    hashes: int,
) -> Record:
    """A request ended in any way; not admitted: it left while waiting. `hashes` counts all its blocks."""
    return {
        "t": "finish",
        "ts": at,
        "rid": request_id,
        "status": str(getattr(status, "name", status)),
        "prompt": prompt,
        "out": out,
        "preemptions": preemptions,
        "admitted": admitted,
        "hashes_total": hashes,
    }


def summary(stats: object, at: float) -> Record:
    """One finished request as the frontend's statistics tell it; `cached` is over all tiers, unsplit."""
    record: Record = {"t": "summary", "ts": at}
    for key, name in SUMMARY_FIELDS.items():
        record[key] = getattr(stats, name, None)
    reason = getattr(stats, "finish_reason", None)
    record["status"] = str(getattr(reason, "name", reason))
    return record


def _tiers(split: Mapping[object, int] | None) -> dict[str, int] | None:
    """Return tokens by the name of their tier; vLLM names tiers by an enumeration of texts."""
    return {str(getattr(tier, "value", tier)): tokens for tier, tokens in split.items()} if split else None


def digest(text: object, key: bytes = b"") -> str | None:
    """Return a name for a private text: equal texts get equal names, the text itself stays here.

    Without the key, which may have up to 64 bytes, nobody can try texts until the name fits.
    """
    if text is None:
        return None
    return hashlib.blake2b(str(text).encode(), digest_size=16, key=key, person=b"tierscope").hexdigest()


def _trace(headers: object) -> dict[str, str] | None:
    if not isinstance(headers, Mapping):
        return None
    found = {name: str(headers[name]) for name in TRACE_HEADERS if name in headers}
    return found or None
