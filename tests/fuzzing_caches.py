"""Readers of what cache servers, pools and Kubernetes say, and what must hold whatever they are given."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import msgspec
import yaml

from exporters.curvine.config import parse_config
from exporters.curvine.parse import is_active, parse_pool
from exporters.exposition import SeriesCache, parse_exposition
from exporters.lmcache.controller import Controller, decode_messages
from exporters.lmcache.coordinator import CoordinatorStream, decode_batches
from exporters.lmcache.parse import parse_status
from exporters.lmcache.record_stream import RecordStream
from exporters.lmcache.records import decode_records
from exporters.lmcache.suspicion import ServerJudge
from exporters.lookups import Lookups
from exporters.pods.objects import read_pods
from tests.captured import lmcache_payloads
from tierscope.domain.errors import BadInput, SourceUnreadable
from tierscope.domain.tiers import Tier

CAPTURES = Path(__file__).parent / "fixtures" / "captures"
KUBERNETES = Path(__file__).parent / "fixtures" / "kubernetes"
NOW = 1_700_000_000.0


def cache_records(data: bytes) -> None:
    """Every item of a payload is a record or an oddity, and the same payload twice is taken as well."""
    try:
        records, oddities = decode_records(data, where="fuzz")
    except BadInput:
        return
    items = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    assert len(records) + sum(oddity.count for oddity in oddities) == len(items)
    stream = RecordStream("server", "pool", Lookups(), "fuzz", ServerJudge("fuzz"))
    for sequence in range(2):
        assert stream.message(data, sequence).missing >= 0
    stream.restart(NOW)
    list(stream.findings)


def controller(data: bytes) -> None:
    """What a controller holds is never less than nothing."""
    try:
        messages = decode_messages(data, where="fuzz")
    except BadInput:
        return
    listening = Controller("holder", "fuzz", chunk_tokens=256)
    for message in (*messages, *messages):
        assert listening.message(message, NOW).missing >= 0
    assert listening.resident(Tier.L1) >= 0


def coordinator(data: bytes) -> None:
    """Batches are taken or refused by name, and twice the same is once."""
    try:
        batches = decode_batches(data, where="fuzz")
    except BadInput:
        return
    stream = CoordinatorStream("server", "pool")
    for _ in range(2):
        assert stream.take(batches).missing >= 0
    stream.gone(NOW)


def documents(data: bytes) -> None:
    """Status pages, a pool's tables and lists of pods are read whole or refused by name."""
    for read in (
        lambda: parse_status(data, where="fuzz"),
        lambda: is_active(data, where="fuzz"),
        lambda: parse_config(data, where="fuzz"),
        lambda: parse_pool(_master(), data, where="fuzz").sample("pool", NOW),
        lambda: read_pods(data, where="fuzz"),
    ):
        try:
            read()
        except (BadInput, SourceUnreadable):
            continue


@cache
def _master():
    page = (CAPTURES / "curvine/master-v0.3.2.derived.prom").read_bytes()
    return parse_exposition(page, where="fuzz", cache=SeriesCache())


@cache
def cache_record_seeds() -> list[bytes]:
    """What the probe would have sent of recorded events."""
    return lmcache_payloads(CAPTURES / "lmcache/mp_vllm_cpu/events.jsonl")[:300]


@cache
def controller_seeds() -> list[bytes]:
    """Recorded messages."""
    lines = (CAPTURES / "lmcache/inproc_fs/controller_messages.jsonl").read_text().splitlines()
    fields = ({k: v for k, v in json.loads(line).items() if k not in ("t", "channel")} for line in lines)
    return [msgspec.msgpack.encode(message) for message in fields][:300]


@cache
def coordinator_seeds() -> list[bytes]:
    """Recorded requests' bodies."""
    lines = (CAPTURES / "lmcache/mp_otlp_coordinator/coordinator_http.jsonl").read_text().splitlines()
    return [json.dumps(body).encode() for line in lines if (body := json.loads(line).get("body"))][:300]


@cache
def document_seeds() -> list[bytes]:
    """Status pages, a pool's tables, and the objects of a deployment as a list."""
    paths = [*CAPTURES.glob("lmcache/*/status.json"), *CAPTURES.glob("curvine/*.json")]
    objects = yaml.safe_load((KUBERNETES / "support-chat.yaml").read_text())["items"]
    pods = [one for one in objects if one.get("kind") == "Pod"]
    listed = json.dumps({"items": pods}, default=str).encode()
    return [*(path.read_bytes() for path in sorted(paths)), listed]
