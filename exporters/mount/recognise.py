"""One name and what the file system says of it, as a row of the table of files. Pure but for its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from zlib import crc32

from exporters.mount.chunk_file import ChunkFile, ChunkFormat
from exporters.mount.fetch import EntryKind, EntryStat
from exporters.mount.files import FileKind, Row
from exporters.mount.models import Models
from exporters.mount.native_names import config_digest
from exporters.mount.parse import NameReader, is_temporary, shown

SETTLED_SECONDS = 60.0
"""After so long without a write, a file that is written in place is taken to be whole."""

MOST_EXAMPLES = 5
MOST_OWNERS = 4096
MOST_SECONDS = 0xFFFF_FFFF


@dataclass(slots=True)
class Foreign:
    """Files that no format names, since this was last asked for: how many, and some as they may be shown."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, folders: Sequence[str], name: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append("/".join(shown(part) for part in (*folders, name)))


@dataclass(slots=True)
class Recogniser:
    """Makes rows of files; `models` numbers the models, `foreign` counts what has no format.

    `salted` says whether any chunk had a salt or tags.
    """

    reader: NameReader
    models: Models
    salted: bool = False
    foreign: Foreign = field(default_factory=Foreign)
    _owners: dict[tuple[object, ...], int] = field(default_factory=dict)

    def row(
        self,
        path_key: int,
        folders: Sequence[str],
        name: str,
        entry: EntryStat,
        now_unix_seconds: float,
    ) -> Row:
        """Return the row of one entry that was not known."""
        kind, chunk_key, chunk_hash, model = FileKind.FOREIGN, 0, 0, 0
        if entry.kind is EntryKind.DIRECTORY:
            kind = FileKind.DIRECTORY
        elif entry.kind is EntryKind.FILE:
            chunk = self.reader.read(folders, name)
            if chunk is not None:
                kind = _kind(chunk, entry, now_unix_seconds)
                model = self.models.number(chunk.model, _digest(chunk))
                self.salted |= chunk.salt_hash is not None
                if not chunk.temporary:
                    chunk_key, chunk_hash = self._owner(chunk) ^ chunk.chunk_hash, chunk.chunk_hash
            elif config_digest(folders, name) is not None:
                kind = FileKind.METADATA
            elif is_temporary(name):
                kind = FileKind.TEMPORARY
        if kind is FileKind.FOREIGN:
            self.foreign.note(folders, name)
        modified = min(max(0, int(entry.modified_unix_seconds)), MOST_SECONDS)
        return path_key, chunk_key, chunk_hash, entry.size_bytes, modified, branch_of(folders), model, kind

    def take_foreign(self) -> Foreign:
        """Return what was counted as foreign since this was last asked for."""
        foreign, self.foreign = self.foreign, Foreign()
        return foreign

    def _owner(self, chunk: ChunkFile) -> int:
        """A number for all that keeps chunks of one hash apart, the same in every process."""
        apart = (chunk.format, chunk.model, chunk.world, chunk.layout, chunk.salt_hash)
        owner = self._owners.get(apart)
        if owner is None:
            if len(self._owners) >= MOST_OWNERS:
                self._owners.clear()
            text = "@".join(map(str, apart)).encode("utf-8", "surrogatepass")
            owner = self._owners[apart] = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
        return owner


def branch_of(folders: Sequence[str]) -> int:
    """Return a number for the folder of the root that something lies under, 0 for the root itself."""
    return crc32(folders[0].encode("utf-8", "surrogateescape")) or 1 if folders else 0


def resettle(kind: int, entry: EntryStat, now_unix_seconds: float) -> FileKind:
    """Return what an unsettled file is by now."""
    if entry.size_bytes == 0:
        return FileKind.EMPTY
    young = now_unix_seconds - entry.modified_unix_seconds < SETTLED_SECONDS
    return FileKind.GROWING if kind == FileKind.GROWING and young else FileKind.CHUNK


def _kind(chunk: ChunkFile, entry: EntryStat, now_unix_seconds: float) -> FileKind:
    if chunk.temporary:
        return FileKind.TEMPORARY
    in_place = chunk.format is ChunkFormat.LMCACHE_DISK
    return resettle(FileKind.GROWING if in_place else FileKind.CHUNK, entry, now_unix_seconds)


def _digest(chunk: ChunkFile) -> str:
    return chunk.layout if chunk.format is ChunkFormat.VLLM_NATIVE else ""
