"""Base units and the few conversions allowed at the edges: bytes, seconds, tokens, blocks, ratios."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

BLOCK_HASH_MASK = (1 << 64) - 1
"""A block hash is the low 64 bits (last 8 bytes, big-endian) of the engine's block hash; unsigned."""


def block_hash_of_bytes(digest: bytes) -> int:
    """Return the 64-bit block hash of an engine's full digest: its last 8 bytes, big-endian.

    This is the value vLLM publishes in KV events with integer hashes, so bytes and ints join.
    """
    return int.from_bytes(digest[-8:], "big")


def format_bytes(size_bytes: float) -> str:
    """Return a size for people, in binary units: 1536 -> '1.5 KiB'."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the loop always returns at TiB")


def format_seconds(seconds: float) -> str:
    """Return a duration for people: 0.0123 -> '12.3 ms', 75 -> '75.0 s'."""
    if abs(seconds) < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s"
