"""Records of an engine's hook, each field as a test wants it."""

from __future__ import annotations

from exporters.private import keyed_hash
from exporters.vllm.hook import Admit, Finish, First, Loaded

hash_secret = keyed_hash(b"k" * 16)


def admit(rid="r", attempt=0, ts=10.0, **fields):
    return Admit(**{"ts": ts, "rid": rid, "attempt": attempt, "prompt": 40, "arrival": 9.5} | fields)


def first(rid="r", ttft_s=0.7):
    return First(ts=10.2, rid=rid, ttft_s=ttft_s)


def finish(rid="r", *, admitted=True):
    return Finish(ts=11.0, rid=rid, status="FINISHED_STOPPED", admitted=admitted)


def loaded(rid="r", wait_s=0.1):
    return Loaded(ts=10.1, rid=rid, wait_s=wait_s)
