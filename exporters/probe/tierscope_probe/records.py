"""The records the probe sends: plain dicts, one kind a function, `t` names the kind.

Times (`ts`, `arrival`) are unix seconds, durations end in `_s` (seconds), everything counted is tokens
unless its name says otherwise. Session ids and cache salts leave the engine as digests only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from tierscope_probe.engine import EngineFacts, EngineRequest

Record = dict[str, object]

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


def hello(facts: EngineFacts, *, form: str, at: float, versions: Mapping[str, str]) -> Record:
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
    request: EngineRequest,
    *,
    at: float,
    attempt: int,
    local: int,
    external: int,
    lookup: Mapping[str, object],
    split: Mapping[str, int] | None,
    prefill: tuple[int, int, int] | None,
) -> Record:
    """One admission: the prompt's tokens by origin, as the engine will count them.

    `lookup` holds what is known of the lookups before it. `prefill` is the engine's own count of the first
    admission (prompt, local, external), the source of its counters; attempts above 0 are not in them.
    """
    record: Record = {
        "t": "admit",
        "ts": at,
        "rid": request.request_id,
        "attempt": attempt,
        **lookup,
        "prompt": request.num_prompt_tokens,
        "total": request.num_tokens,
        "local": local,
        "external": external,
        "split": dict(split) if split else None,
        "skip": bool(getattr(request, "skip_reading_prefix_cache", False)),
        "arrival": request.arrival_time,
    }
    if prefill is not None:
        record["ps"] = prefill
    return record


def identity(request: EngineRequest, hashes: Sequence[object] | None) -> Record:
    """What an admission says of the request itself: sent once, with attempt 0.

    `hashes` are those of the prompt's full blocks; the sender shortens them. None: not known.
    """
    adapter = getattr(request, "lora_request", None)
    return {
        "hashes": hashes,
        "salt": _digest(getattr(request, "cache_salt", None)),
        "lora": getattr(adapter, "lora_name", None),
        "session": _digest(getattr(request, "session_id", None)),
        "trace": _trace(getattr(request, "trace_headers", None)),
    }


def loaded(request: EngineRequest, *, at: float, wait_s: float) -> Record:
    """An asynchronous load through the connector ended, `wait_s` after the admission."""
    return {"t": "loaded", "ts": at, "rid": request.request_id, "wait_s": wait_s}


def first(request: EngineRequest, *, at: float) -> Record:
    """The scheduler saw the first token; `ttft_s` counts from the frontend's arrival time."""
    return {"t": "first", "ts": at, "rid": request.request_id, "ttft_s": at - request.arrival_time}


def finish(request: EngineRequest, *, at: float, admitted: bool) -> Record:
    """A request ended in any way; not admitted: it left while waiting."""
    return {
        "t": "finish",
        "ts": at,
        "rid": request.request_id,
        "status": str(getattr(request.status, "name", request.status)),
        "prompt": request.num_prompt_tokens,
        "out": request.num_output_tokens,
        "preemptions": int(getattr(request, "num_preemptions", 0)),
        "admitted": admitted,
        "hashes_total": len(request.block_hashes),
    }


def summary(stats: object, *, at: float) -> Record:
    """One finished request as the frontend's statistics tell it; `cached` is over all tiers, unsplit."""
    record: Record = {"t": "summary", "ts": at}
    for key, name in SUMMARY_FIELDS.items():
        record[key] = getattr(stats, name, None)
    reason = getattr(stats, "finish_reason", None)
    record["status"] = str(getattr(reason, "name", reason))
    return record


def _digest(text: object) -> str | None:
    """Return a name for a private text: equal texts get equal names, the text itself stays here."""
    if text is None:
        return None
    return hashlib.blake2b(str(text).encode(), digest_size=16, person=b"tierscope").hexdigest()


def _trace(headers: object) -> dict[str, str] | None:
    if not isinstance(headers, Mapping):
        return None
    found = {name: str(headers[name]) for name in TRACE_HEADERS if name in headers}
    return found or None
