"""Keyed hashes of what must not leave an engine's node as it is: session ids and cache salts."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from tierscope.domain.errors import BadSettings, TierscopeError

KEY_BYTES = 32

KeyedHash = Callable[[object], int | None]
"""From a secret (text, bytes, or any plain value) to an unsigned 64-bit number; None stays None."""


def keyed_hash(key: bytes) -> KeyedHash:
    """Return the hash function of one key (at most 64 bytes): equal secrets give equal numbers."""

    def hash_secret(secret: object) -> int | None:
        if secret is None:
            return None
        data = secret if isinstance(secret, bytes) else str(secret).encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(data, digest_size=8, key=key).digest(), "big")

    return hash_secret


def load_key(path: str | None, *, random_bytes: Callable[[int], bytes]) -> bytes:
    """Return the key in a file (surrounding white space dropped), or a random one of this run alone.

    Raises `BadSettings` for a file that cannot be read, or that holds fewer than 16 or more than 64 bytes.
    """
    if path is None:
        return random_bytes(KEY_BYTES)
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        what = f"the key file cannot be read: {error.strerror or error}"
        raise BadSettings([_bad_key(what, path)]) from error
    if not 16 <= len(key) <= 64:
        raise BadSettings([_bad_key(f"the key has {len(key)} bytes", path)])
    return key


def _bad_key(what: str, path: str) -> TierscopeError:
    return TierscopeError(
        what, where=f"{path} (exporter.hash_key_file)", fix="write 16 to 64 random bytes into it"
    )
