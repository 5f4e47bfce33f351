"""`/api/config` of a Curvine master: what removes files from the pool, if anything does. Pure.

The document is the whole configuration and may hold addresses and keys of other stores: only the fields
below are read, and nothing else of it is kept. Its `client` section is what the master was given; a
mount may set its own TTL, which no page tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from exporters.documents import read_document
from tierscope.domain.errors import SourceUnreadable

DEFAULT_BLOCK_BYTES = 128 * 1024 * 1024

_UNITS_SECONDS = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS_BYTES = {
    f"{prefix}{ending}": 1024.0**power
    for power, prefix in enumerate(("", "k", "m", "g", "t"))
    for ending in ("", "b", "ib")
}
"""Binary, whatever the letters say."""
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


class _Client(msgspec.Struct):
    """Each setting is written with and without `_str`: the text is what a person set."""

    ttl_ms: int | str | None = None
    ttl_ms_str: str | None = None
    ttl_action: str | None = None
    ttl_action_str: str | None = None
    block_size: int | str | None = None
    block_size_str: str | None = None


class _Master(msgspec.Struct):
    enable_quota_eviction: bool = False
    quota_eviction_dry_run: bool = False
    quota_eviction_high_rate: float = 0.8
    quota_eviction_low_rate: float = 0.6


class _Config(msgspec.Struct):
    client: _Client
    master: _Master = msgspec.field(default_factory=_Master)


@dataclass(frozen=True, slots=True)
class RemovalRules:
    """What removes files. `ttl_seconds` is 0 without a TTL, `ttl_action` none, delete or free.

    `watermarks` are where quota eviction begins and ends; None: it is off, or only pretends (dry run).
    `block_bytes` must be free on a worker for a new file to be taken.
    """

    ttl_seconds: float
    ttl_action: str
    watermarks: tuple[float, float] | None
    block_bytes: int

    @property
    def removes(self) -> bool:
        """Whether anything ever leaves a pool without a store behind it.

        Only `delete` does, once a file's TTL is over: `free` keeps files that exist nowhere else, and
        quota eviction hands its victims to the TTL, which leaves them alone until then.
        """
        return self.ttl_seconds > 0 and self.ttl_action == "delete"


def parse_config(body: bytes, *, where: str) -> RemovalRules:
    """Read the document; raises `SourceUnreadable`."""
    config = read_document(body, _Config, where=where)
    client, master = config.client, config.master
    on = master.enable_quota_eviction and not master.quota_eviction_dry_run
    block = client.block_size_str or client.block_size or DEFAULT_BLOCK_BYTES
    return RemovalRules(
        ttl_seconds=_quantity(client.ttl_ms_str or client.ttl_ms or 0, _UNITS_SECONDS, "ttl_ms", where),
        ttl_action=(client.ttl_action_str or client.ttl_action or "none").lower(),
        watermarks=(master.quota_eviction_high_rate, master.quota_eviction_low_rate) if on else None,
        block_bytes=int(_quantity(block, _UNITS_BYTES, "block_size", where)),
    )


def _quantity(text: int | str, units: Mapping[str, float], name: str, where: str) -> float:
    """A number with a unit as Curvine writes it: 7d, 500ms, 64MB."""
    match = _NUMBER.fullmatch(str(text))
    scale = units.get(match[2].lower()) if match else None
    if match is None or scale is None:
        raise SourceUnreadable(
            f"client.{name} is {text!r}, which is no quantity we know",
            where=where,
            fix="report the release of Curvine; the rest of the pool is read",
        )
    return float(match[1]) * scale
