"""One pool where it is mounted: evictions that nobody else reports, bytes a model, its size if need be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from exporters.fetch import Fetcher
from exporters.health import Units
from exporters.mount.fetch import Mount, OsMount
from exporters.mount.figures import Figures, ModelCounts
from exporters.mount.scan import KEY_CHECK_WORD, Scanner, ScanResult
from exporters.mount.state import State, load_state, save_state
from exporters.mount.suspicion import judge_directory
from exporters.mount.watcher import RETRY_SECONDS, Watcher
from exporters.oddities import Oddity
from exporters.pages import PageReading
from exporters.pools import PoolFacts
from exporters.private import KeyedHash
from tierscope.domain.errors import BadInput, TierscopeError
from tierscope.domain.events import TierSample
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.mount_settings import MountSettings
from tierscope.domain.tiers import Tier
from tierscope.registry import metrics
from tierscope.registry.types import Sample

FIRST_ANSWER_SECONDS = 1.0
"""How long the first reading waits for the mount to say anything at all."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What /metrics shows of the last complete scan."""

    figures: Figures
    took_seconds: float
    ended: float


class MountSource:
    """Reads the pool at a mounted directory; the first reading starts the scan.

    `facts` are those of the pool, shared with its master's reader. A reading never waits for the mount.
    """

    units = 1

    def __init__(
        self,
        settings: MountSettings,
        facts: PoolFacts,
        hash_secret: KeyedHash,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        mount: Mount | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._settings = settings
        self._facts = facts
        self._monotonic = monotonic
        self._odd: list[Oddity] = []
        mount = mount or OsMount(settings.path)
        scanner = Scanner(
            settings,
            mount,
            hash_secret,
            clock=clock,
            monotonic=monotonic,
            state=self._load_state(hash_secret(KEY_CHECK_WORD) or 0),
        )
        self._watcher = Watcher(settings, mount, scanner, monotonic=monotonic, retry_seconds=retry_seconds)
        self._started = False
        self._told: State | None = None
        self._counts = ModelCounts(settings.pool)
        self._shown: _Shown | None = None
        self._chunks: int | None = None
        self._lock = threading.Lock()

    @property
    def source(self) -> SourceId:
        """The pool, by its name."""
        return SourceId(SourceKind.POOL_MOUNT, self._settings.pool)

    def read(self, fetcher: Fetcher, at_unix_seconds: float) -> PageReading:  # noqa: ARG002 - no page to fetch
        """Return what happened since this was last asked; raises `SourceUnreadable`."""
        self._save_told()
        if not self._started:
            self._started = True
            self._watcher.start()
        news = self._watcher.take(first_answer_within_seconds=FIRST_ANSWER_SECONDS)
        odd, self._odd = self._odd, []
        reading = PageReading(oddities=odd)
        for scan in news.scans:
            self._take(scan, reading)
        if news.error is not None and not news.scans:
            with self._lock:
                self._shown = None
            raise news.error
        if self._shown is not None:
            reading.findings += judge_directory(
                self._shown.figures, self._facts, self._settings.models, where=self._settings.path
            )
        if news.space is not None and not self._facts.master_tells:
            reading.entries.append(
                TierSample(
                    tier=Tier.L2,
                    holder=self._settings.pool,
                    at_unix_seconds=at_unix_seconds,
                    capacity_bytes=news.space.capacity_bytes,
                    used_bytes=news.space.used_bytes,
                    used_blocks=self._chunks,
                )
            )
        return reading

    def samples(self) -> Iterator[Sample]:
        """Yield the pool's own series; what the directory holds is absent while it cannot be read."""
        with self._lock:
            shown = self._shown
        pool = self._settings.pool
        if shown is not None:
            yield from shown.figures.samples(pool)
            yield Sample(metrics.POOL_SCAN_SECONDS, (pool,), shown.took_seconds)
            yield Sample(metrics.POOL_SCAN_AGE_SECONDS, (pool,), self._monotonic() - shown.ended)
        yield from self._counts.samples()

    def stop(self) -> None:
        """End the scan; one that hangs is left behind."""
        self._watcher.stop()
        self._watcher.join()

    def _take(self, scan: ScanResult, reading: PageReading) -> None:
        """Put one complete scan into a reading."""
        reading.restarted |= scan.restarted
        reading.units.add(Units(undecodable=scan.unread.folders))
        reading.oddities += self._oddities(scan)
        if scan.changes is not None:
            reading.entries += scan.changes.events(self._settings.pool, scan.at_unix_seconds)
            self._counts.add(scan.changes.stored, scan.changes.removed, scan.labels)
        reading.entries += scan.figures.entries(self._settings.pool, scan.at_unix_seconds)
        self._chunks = scan.chunks
        if scan.changes is None or len(scan.changes.stored) or len(scan.changes.removed):
            self._told = scan.state
        with self._lock:
            self._shown = _Shown(scan.figures, scan.took_seconds, self._monotonic())

    def _oddities(self, scan: ScanResult) -> Iterator[Oddity]:
        path = self._settings.path
        for count, what in (
            (scan.unread.folders, "unreadable folder"),
            (scan.unread.files, "unreadable file"),
        ):
            if count:
                error = BadInput(
                    f"{count} of the pool's directory could not be read: {'; '.join(scan.unread.examples)}",
                    where=path,
                    fix="let the exporter's user list every folder and look at every file",
                )
                yield Oddity(what, error, count)
        if scan.foreign.count:
            error = BadInput(
                f"files that no known cache writes: {', '.join(scan.foreign.examples)}",
                where=path,
                fix="keep a pool to its caches; if a cache wrote them, report its release",
            )
            yield Oddity("foreign file", error, scan.foreign.count)

    def _load_state(self, key_check: int) -> State | None:
        settings = self._settings
        if settings.state_file is None:
            return None
        try:
            return load_state(
                Path(settings.state_file), pool=settings.pool, path=settings.path, key_check=key_check
            )
        except TierscopeError as error:
            self._odd.append(Oddity("state not used", error))
            return None

    def _save_told(self) -> None:
        """Keep what was published: a scan is saved when its events are out, so that none is lost."""
        state, self._told = self._told, None
        if state is None or self._settings.state_file is None:
            return
        try:
            save_state(Path(self._settings.state_file), state)
        except OSError as error:
            problem = BadInput(
                f"the state of the last scan cannot be kept: {error.strerror or error}",
                where=self._settings.state_file,
                fix="name a file in a directory that exists, is writable and has room",
            )
            self._odd.append(Oddity("state not kept", problem))
