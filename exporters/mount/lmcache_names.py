"""LMCache's file names. Pure.

A multiprocess server writes `model@0x<rank>@<group>@<hash>[@salt].data`; the rank packs world size, rank,
and both again on the node, a byte each. An engine's own LMCache writes
`model@world@rank@<signed hash>@dtype[@layer][@tag%value…].data`, up to release 0.3.9 with a format name in
front and without the dtype; its local disk backend writes the same with `.pt`. A file being written ends
in `.tmp` instead of, or after, `.data`. A slash in a model's name is written `-SEP-`, and `-` in old names
and on local disk, where it cannot be told from a hyphen.
"""

from __future__ import annotations

import re

from exporters.mount.chunk_file import ChunkFile, ChunkFormat, low_hash
from exporters.private import KeyedHash

_SERVER = re.compile(
    r"(?P<model>[^@]+)@0x(?P<rank>[0-9a-f]{8,16})@(?P<group>[0-9a-f]{1,8})@(?P<hash>[0-9a-f]{2,128})"
    r"(?:@(?P<salt>[^@]+))?"
)
_ENGINE = re.compile(
    r"(?P<model>[^@]+)@(?P<world>[0-9]{1,6})@(?P<rank>[0-9]{1,6})@(?P<hash>-?[0-9a-f]{1,128})"
    r"@(?P<dtype>[a-z][a-z0-9_]*)(?:@(?P<layer>[0-9]{1,6}))?(?:@(?P<tags>[^@%]+%.*))?"
)
_OLD_ENGINE = re.compile(
    r"(?P<dtype>[^@]+)@(?P<model>[^@]+)@(?P<world>[0-9]{1,6})@(?P<rank>[0-9]{1,6})@(?P<hash>-?[0-9a-f]{1,128})"
    r"(?:@(?P<layer>[0-9]{1,6}))?(?:@(?P<tags>[^@%]+%.*))?"
)
_ENDINGS = ((".data", False), (".data.tmp", True), (".tmp", True))


def parse_lmcache_name(name: str, hash_secret: KeyedHash) -> ChunkFile | None:
    """Return what the name of a file says, None when LMCache does not write such names."""
    if "@" not in name:
        return None
    if name.endswith(".pt"):
        return _engine_file(name.removesuffix(".pt"), ChunkFormat.LMCACHE_DISK, hash_secret, temporary=False)
    for ending, temporary in _ENDINGS:
        if name.endswith(ending):
            stem = name.removesuffix(ending)
            return _server_file(stem, hash_secret, temporary=temporary) or _engine_file(
                stem, ChunkFormat.LMCACHE_INPROCESS, hash_secret, temporary=temporary
            )
    return None


def _server_file(stem: str, hash_secret: KeyedHash, *, temporary: bool) -> ChunkFile | None:
    found = _SERVER.fullmatch(stem)
    if found is None or len(found["hash"]) % 2:
        return None
    rank = int(found["rank"], 16)
    return ChunkFile(
        format=ChunkFormat.LMCACHE_MP,
        model=_model(found["model"]),
        chunk_hash=low_hash(found["hash"]),
        rank=rank >> 16 & 0xFF,
        world=rank >> 24,
        group=int(found["group"], 16),
        salt_hash=hash_secret(found["salt"]),
        temporary=temporary,
    )


def _engine_file(
    stem: str, chunk_format: ChunkFormat, hash_secret: KeyedHash, *, temporary: bool
) -> ChunkFile | None:
    found = _ENGINE.fullmatch(stem) or _OLD_ENGINE.fullmatch(stem)
    if found is None:
        return None
    return ChunkFile(
        format=chunk_format,
        model=_model(found["model"]),
        chunk_hash=low_hash(found["hash"]),
        rank=int(found["rank"]),
        world=int(found["world"]),
        layer=None if found["layer"] is None else int(found["layer"]),
        layout=found["dtype"],
        salt_hash=hash_secret(found["tags"]),
        temporary=temporary,
    )


def _model(written: str) -> str:
    return written.replace("-SEP-", "/")
