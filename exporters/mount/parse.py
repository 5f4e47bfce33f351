"""A name in a pool's directory: a chunk's file, a file of a cache's own, or something foreign. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from exporters.mount.chunk_file import ChunkFile
from exporters.mount.lmcache_names import parse_lmcache_name
from exporters.mount.native_names import parse_native_name
from exporters.private import KeyedHash

LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class NameReader:
    """Reads names by the formats we know; files in `temporary_directories` are being written."""

    hash_secret: KeyedHash
    temporary_directories: Collection[str] = ()

    def read(self, folders: Sequence[str], name: str) -> ChunkFile | None:
        """Return what a file is by its name and the folders below the root it lies in; None: foreign."""
        chunk = parse_lmcache_name(name, self.hash_secret) or parse_native_name(folders, name)
        if chunk is not None and folders and folders[-1] in self.temporary_directories:
            return replace(chunk, temporary=True)
        return chunk


def is_temporary(name: str) -> bool:
    """Whether a name that no format has is still one of a file that is being written."""
    return name.endswith(".tmp")


def shown(name: str) -> str:
    """Return a foreign name as it may be shown to people.

    What follows an @ could be a salt or a tag in a place that we do not know, and is left out.
    """
    start, at, rest = name.partition("@")
    ending = f".{rest.rpartition('.')[2]}" if "." in rest else ""
    text = ascii(f"{start}@…{ending}" if at else name)[1:-1].replace("\\u2026", "…")
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
