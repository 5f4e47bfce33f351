"""One walk through a pool's directory, in small steps; what interrupts it does not undo it.

The file system is asked for names alone. Only a name that was not there before is looked at: its kind, its
size. So a scan after the first costs the pool little more than its listings.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from exporters.mount.fetch import DISCONNECTED, GONE, EntryStat, Folder
from exporters.mount.files import (
    IS_SPECIAL,
    IS_UNSETTLED,
    NO_FILES,
    BoolArray,
    FileArray,
    FileBuffer,
    FileKind,
    Row,
    child_key,
    find,
    kept,
    merged,
    path_keys,
)
from exporters.mount.native_names import MOST_CONFIG_BYTES, config_digest, parse_config
from exporters.mount.recognise import Recogniser, resettle
from exporters.mount.unread import Unread
from tierscope.domain.trace import Int64Array, UInt64Array

LOOKUPS_PER_STEP = 128
"""Entries looked at in one step: bounds how long a step takes on a slow pool."""

MOST_DEPTH = 12
"""Folders below the root that are entered; no cache nests so deep."""


class Step(NamedTuple):
    """What one step asked of the file system."""

    names: int
    lookups: int


@dataclass(slots=True)
class _Level:
    """A folder on the way down: its names above, what is left to enter below."""

    folders: tuple[str, ...] = ()
    key: int = 0
    listed: bool = False
    pending: list[str] = field(default_factory=list)


class Walk:
    """Walks once through everything below a root, against what an earlier walk found.

    `known` is given away: it is marked, updated and released. `clock` gives unix seconds. When `steps`
    raises `OSError`, the mount is gone or the root cannot be read; `steps` of a root opened later goes on
    from there: no folder that was listed is listed again, no file that was looked at is looked at again.
    """

    def __init__(self, known: FileArray, recogniser: Recogniser, clock: Callable[[], float]) -> None:
        self._known = known
        self._keys: UInt64Array = np.ascontiguousarray(known["path_key"])
        self._seen: BoolArray = np.zeros(len(known), dtype=np.bool_)
        self._fresh = FileBuffer()
        self._earlier: FileArray = NO_FILES  # what was met before the last interruption, sorted
        self._earlier_keys: UInt64Array = np.ascontiguousarray(NO_FILES["path_key"])
        self._met = 0
        self._recogniser = recogniser
        self._clock = clock
        self._levels = [_Level()]
        self.unread = Unread()

    @property
    def was_blank(self) -> bool:
        """Whether nothing was known before."""
        return not len(self._known)

    @property
    def found_known(self) -> bool:
        """Whether anything that was known is still there."""
        return bool(self._seen.any())

    @property
    def found_nothing(self) -> bool:
        """Whether the directory is empty."""
        return not self.found_known and not self._met

    def known(self) -> FileArray:
        """Return what was known before, for a walk that is given up."""
        return self._known

    def steps(self, root: Folder) -> Generator[Step, None, None]:
        """Walk on from where the walk stands, until everything is read; closes what it opens but the root."""
        self._remember_fresh()
        opened: list[Folder] = [root]
        try:
            while self._levels:
                if len(opened) > len(self._levels):
                    opened.pop().close()
                elif len(opened) < len(self._levels):
                    yield Step(0, 1)
                    self._open_next(opened)
                elif not self._levels[-1].listed:
                    yield from self._list(opened[-1])
                else:
                    self._descend()
        finally:
            for folder in opened[1:]:
                folder.close()

    def files(self) -> FileArray:
        """Return all that is there, sorted, once the walk has ended; the walk is of no use afterwards.

        What lay where this walk could not read is taken to be still there.
        """
        keep = self._seen
        if self.unread.branches:
            keep = keep | np.isin(self._known["branch"], list(self.unread.branches))
        self._keys = self._earlier_keys = self._keys[:0].copy()
        known = kept(self._known, keep)
        self._known = NO_FILES
        if not self._met:
            return known
        parts = [known, self._earlier, *self._fresh.take()]
        self._earlier = NO_FILES
        del known
        return merged(parts)

    def _remember_fresh(self) -> None:
        """Make what was met so far known to the rest of an interrupted walk."""
        parts = [self._earlier, *self._fresh.take()]
        self._earlier = NO_FILES
        self._earlier = merged(parts)
        self._earlier_keys = np.ascontiguousarray(self._earlier["path_key"])

    def _open_next(self, opened: list[Folder]) -> None:
        level = self._levels[len(opened)]
        try:
            opened.append(opened[-1].enter(level.folders[-1]))
        except OSError as error:
            self._give_up(len(opened), error)

    def _list(self, folder: Folder) -> Iterator[Step]:
        depth = len(self._levels) - 1
        level = self._levels[depth]
        level.pending.clear()
        try:
            for names in folder.lists():
                yield Step(len(names), 0)
                yield from self._meet(folder, level, names)
        except OSError as error:
            self._give_up(depth, error)
        else:
            level.listed = True

    def _give_up(self, depth: int, error: OSError) -> None:
        """Leave a folder that cannot be read; raises where that is the root, or the whole mount is gone."""
        if depth == 0 or error.errno in DISCONNECTED:
            raise error
        if error.errno not in GONE:
            self.unread.note_folder(self._levels[depth].folders, error)
        del self._levels[depth:]

    def _descend(self) -> None:
        level = self._levels[-1]
        if not level.pending:
            self._levels.pop()
            return
        name = level.pending.pop()
        if len(level.folders) >= MOST_DEPTH:
            self.unread.note_folder((*level.folders, name), OSError(errno.ENAMETOOLONG, "nested too deep"))
            return
        self._levels.append(_Level((*level.folders, name), child_key(level.key, name)))

    def _meet(self, folder: Folder, level: _Level, names: list[str]) -> Iterator[Step]:
        """Mark the names that are known and look at those that are not."""
        keys = path_keys(names, level.key)
        places, is_known = find(self._keys, keys)
        at = places[is_known]
        self._seen[at] = True
        kinds = self._known["kind"][at]
        if IS_SPECIAL[kinds].any():
            yield from self._meet_special(folder, level, [names[i] for i in np.flatnonzero(is_known)], at)
        if len(at) < len(names):
            new = np.flatnonzero(~is_known)
            yield from self._meet_new(folder, level, [names[i] for i in new], keys[new])

    def _meet_special(
        self, folder: Folder, level: _Level, names: list[str], places: Int64Array
    ) -> Iterator[Step]:
        """Keep known folders for later, and look again at known files that may have changed."""
        kinds = self._known["kind"][places]
        level.pending += [names[i] for i in np.flatnonzero(kinds == FileKind.DIRECTORY)]
        for some in _pieces(np.flatnonzero(IS_UNSETTLED[kinds])):
            yield Step(0, len(some))
            for i in some:
                self._look_again(folder, level, names[i], int(places[i]))

    def _meet_new(self, folder: Folder, level: _Level, names: list[str], keys: UInt64Array) -> Iterator[Step]:
        """Look at names that were not there when the directory was last walked through."""
        new = np.arange(len(names))
        if len(self._earlier_keys):
            places, is_met = find(self._earlier_keys, keys)
            folders = is_met & (self._earlier["kind"][places] == FileKind.DIRECTORY)
            level.pending += [names[i] for i in np.flatnonzero(folders)]
            new = np.flatnonzero(~is_met)
        for some in _pieces(new):
            yield Step(0, len(some))
            rows = [self._row(folder, level, names[i], int(keys[i])) for i in some]
            found = [row for row in rows if row is not None]
            self._fresh.append(found)
            self._met += len(found)

    def _row(self, folder: Folder, level: _Level, name: str, path_key: int) -> Row | None:
        entry = self._look(folder, level, name)
        if entry is None:
            return None
        row = self._recogniser.row(path_key, level.folders, name, entry, self._clock())
        if row[-1] == FileKind.DIRECTORY:
            level.pending.append(name)
        elif row[-1] == FileKind.METADATA:
            self._spell_out(folder, level, name)
        return row

    def _look_again(self, folder: Folder, level: _Level, name: str, place: int) -> None:
        entry = self._look(folder, level, name)
        if entry is not None:
            file = self._known[place]
            file["kind"] = resettle(int(file["kind"]), entry, self._clock())
            file["size_bytes"] = entry.size_bytes

    def _look(self, folder: Folder, level: _Level, name: str) -> EntryStat | None:
        """What an entry is; None when it is gone again or cannot be looked at."""
        try:
            return folder.look(name)
        except OSError as error:
            if error.errno in DISCONNECTED:
                raise
            if error.errno not in GONE:
                self.unread.note_file(level.folders, error)
            return None

    def _spell_out(self, folder: Folder, level: _Level, name: str) -> None:
        """Learn a model's full name from its configuration; without it, it keeps the one in its folder."""
        digest = config_digest(level.folders, name)
        try:
            full_name = parse_config(folder.content(name, MOST_CONFIG_BYTES))
        except OSError as error:
            if error.errno in DISCONNECTED:
                raise
            return
        if digest is not None and full_name is not None:
            self._recogniser.models.spell_out(digest, full_name)


def _pieces(indices: Int64Array) -> Iterator[Int64Array]:
    """Cut what has to be looked at into steps."""
    for start in range(0, len(indices), LOOKUPS_PER_STEP):
        yield indices[start : start + LOOKUPS_PER_STEP]
