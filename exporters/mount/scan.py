"""Scan after scan of one pool's directory, and what each says against the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from exporters.mount.chunks import CHUNK, Changes, ChunkArray, chunks_of, compare
from exporters.mount.fetch import Folder, Mount
from exporters.mount.figures import Figures, figures_of
from exporters.mount.files import NO_FILES, FileArray
from exporters.mount.models import Models
from exporters.mount.parse import NameReader
from exporters.mount.recognise import Foreign, Recogniser
from exporters.mount.state import VERSION, About, State
from exporters.mount.unread import Unread
from exporters.mount.walk import Walk
from exporters.private import KeyedHash
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.mount_settings import MountSettings

KEY_CHECK_WORD = "pool state"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """One complete scan.

    `changes` is None for the first one, which has nothing to be compared with. `restarted` says that the
    directory is another one than before, so that nothing in it is a change. `labels` are the models' by
    number. `took_seconds` is from the first name to the last, pauses and interruptions included.
    """

    at_unix_seconds: float
    took_seconds: float
    figures: Figures
    chunks: int
    changes: Changes | None
    restarted: bool
    labels: tuple[str, ...]
    unread: Unread
    foreign: Foreign
    state: State


class Scanner:
    """Remembers one pool's files between scans. Used by one thread.

    `clock` gives unix seconds, `monotonic` seconds for intervals; `state` is what a process before this
    one found.
    """

    def __init__(
        self,
        settings: MountSettings,
        mount: Mount,
        hash_secret: KeyedHash,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        state: State | None = None,
    ) -> None:
        self._settings = settings
        self._mount = mount
        self._clock = clock
        self._monotonic = monotonic
        self._key_check = hash_secret(KEY_CHECK_WORD) or 0
        self._recogniser = Recogniser(
            NameReader(hash_secret, settings.temporary_directories),
            Models(state.about.models if state is not None else ()),
            salted=state is not None and state.about.salted,
        )
        self._files: FileArray = NO_FILES
        self._chunks: ChunkArray | None = None if state is None else state.chunks
        self._device: int | None = None
        self._walk: Walk | None = None
        self._walk_device: int | None = None
        self._walk_began = 0.0

    def open(self) -> Folder:
        """Open the root; raises `OSError`, and `SourceUnreadable` when the volume is not mounted."""
        root = self._mount.open()
        if self._settings.must_be_mounted and root.device == self._mount.root_device():
            root.close()
            raise SourceUnreadable(
                "the pool's directory lies on the file system of /: its volume is not mounted",
                where=self._settings.path,
                fix="mount the volume, or set must_be_mounted to false if the pool is a plain directory",
            )
        return root

    def walk(self, root: Folder) -> Walk:
        """Return the walk to go on with: one that was interrupted in this file system, or a new one."""
        device = root.device
        if self._walk is None or self._walk_device != device:
            if self._walk is not None:
                self._files = self._walk.known()
            self._walk = Walk(self._files, self._recogniser, self._clock)
            self._files = NO_FILES
            self._walk_device = device
            self._walk_began = self._monotonic()
        return self._walk

    def finish(self) -> ScanResult:
        """Compare what the walk found, which has ended, with the scan before.

        Raises `SourceUnreadable` when the directory is empty and on another file system than before: then
        it is not mounted, and nothing was evicted.
        """
        walk = self._walk
        assert walk is not None, "a scan is finished after its walk"
        self._walk = None
        swapped = self._device not in {None, self._walk_device} and not walk.found_known
        if swapped and walk.found_nothing:
            self._files = walk.known()
            raise SourceUnreadable(
                "the pool's directory is empty, and on another file system than before",
                where=self._settings.path,
                fix="mount the volume again; if the pool was replaced by an empty one, restart the exporter",
            )
        blank = walk.was_blank
        self._device = self._walk_device
        self._files = walk.files()
        found = chunks_of(self._files)
        before = None if swapped else self._chunks
        changes: Changes | None = None
        if before is None:
            self._chunks = found
        else:
            trusted = not (blank and walk.unread.folders)
            self._chunks, changes = compare(before, found, missing_is_removed=trusted)
        return self._result(walk.unread, changes, len(found), restarted=swapped)

    def _result(self, unread: Unread, changes: Changes | None, chunks: int, *, restarted: bool) -> ScanResult:
        now = self._clock()
        models = self._recogniser.models
        figures = figures_of(
            self._files, models, dead_before_unix_seconds=now - self._settings.dead_after_seconds
        )
        return ScanResult(
            at_unix_seconds=now,
            took_seconds=self._monotonic() - self._walk_began,
            figures=figures,
            chunks=chunks,
            changes=changes,
            restarted=restarted,
            labels=tuple(models.labels()),
            unread=unread,
            foreign=self._recogniser.take_foreign(),
            state=self._state(now),
        )

    def _state(self, at_unix_seconds: float) -> State:
        about = About(
            version=VERSION,
            pool=self._settings.pool,
            path=self._settings.path,
            at_unix_seconds=at_unix_seconds,
            key_check=self._key_check,
            salted=self._recogniser.salted,
            models=list(self._recogniser.models.known_models()),
        )
        chunks = self._chunks if self._chunks is not None else np.empty(0, dtype=CHUNK)
        return State(about, chunks)
