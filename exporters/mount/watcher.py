"""The one thread that touches a mount. Whoever asks it for news never waits for the mount.

A dead FUSE client can hold a system call for ever. The thread notes when it asks and when it has an
answer; others see from that how long it has been waiting.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from exporters.mount.fetch import Mount, Space, unreadable
from exporters.mount.scan import Scanner, ScanResult
from exporters.mount.walk import Step
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.mount_settings import MountSettings
from tierscope.domain.worker import Worker

log = logging.getLogger(__name__)

SPACE_SECONDS = 5.0
"""Pause between two looks at the size of the file system."""

RETRY_SECONDS = 5.0
"""Pause before a mount that failed is tried again."""

STOP_SECONDS = 2.0
"""How long a scan is given to end; one step takes less, unless the mount hangs."""

BURST_SECONDS = 0.25
"""How much unused allowance is kept: a scan may be as much ahead of its rates."""


class Pace:
    """Tells how long to wait so that no more is asked in a second than is allowed."""

    def __init__(self, settings: MountSettings, monotonic: Callable[[], float]) -> None:
        self._seconds_a_name = 1 / settings.names_per_second
        self._seconds_a_lookup = 1 / settings.lookups_per_second
        self._monotonic = monotonic
        self._paid_until = monotonic()

    def wait_seconds(self, step: Step) -> float:
        """Return how long to wait for a step, 0 when it may be made at once."""
        now = self._monotonic()
        cost = step.names * self._seconds_a_name + step.lookups * self._seconds_a_lookup
        self._paid_until = max(self._paid_until, now - BURST_SECONDS) + cost
        return max(0.0, self._paid_until - now)


@dataclass(frozen=True, slots=True)
class News:
    """What a watcher has to say: complete scans since it was last asked, oldest first, and the latest size.

    `error` says what is wrong while the mount cannot be read.
    """

    scans: tuple[ScanResult, ...] = ()
    space: Space | None = None
    error: SourceUnreadable | None = None


@dataclass(slots=True)
class _Board:
    """What the thread leaves for others, under `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    scans: list[ScanResult] = field(default_factory=list)
    space: Space | None = None
    error: SourceUnreadable | None = None
    asking_since: float | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class Watcher(Worker):
    """Scans one mounted directory again and again until it is stopped.

    After an error it goes on where it was. It is a daemon: one that hangs in the mount does not keep the
    process from ending, as far as the operating system lets it.
    """

    def __init__(
        self,
        settings: MountSettings,
        mount: Mount,
        scanner: Scanner,
        *,
        monotonic: Callable[[], float],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        super().__init__(f"mount {settings.pool}", patience_seconds=STOP_SECONDS)
        self._settings = settings
        self._mount = mount
        self._scanner = scanner
        self._monotonic = monotonic
        self._retry_seconds = retry_seconds
        self._board = _Board()
        self._pace = Pace(settings, monotonic)
        self._space_due = monotonic()

    def is_waiting(self) -> bool:
        """Whether the mount was asked something and has not answered yet."""
        with self._board.lock:
            return self._board.asking_since is not None

    def take(self, *, first_answer_within_seconds: float) -> News:
        """Return the news and forget the scans in it.

        Waits for the mount's first answer ever, and no longer than is said; afterwards never.
        """
        if not self._board.answered.wait(first_answer_within_seconds):
            return News(error=self._silent())
        board = self._board
        with board.lock:
            scans, board.scans = tuple(board.scans), []
            waiting = 0.0 if board.asking_since is None else self._monotonic() - board.asking_since
            error = self._silent(waiting) if waiting > self._settings.timeout_seconds else board.error
            return News(scans, board.space, error)

    def _silent(self, waiting_seconds: float | None = None) -> SourceUnreadable:
        since = "yet" if waiting_seconds is None else f"for {waiting_seconds:.0f} s"
        return SourceUnreadable(
            f"the mount has not answered {since}",
            where=self._settings.path,
            fix="check the pool's client and its servers; the scan goes on as soon as it answers",
        )

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._monotonic()
            try:
                self._scan()
            except SourceUnreadable as error:
                self._failed(error)
            except OSError as error:
                self._failed(unreadable(error, self._settings.path))
            except Exception as error:  # a fault of ours must not end the thread in silence
                log.exception("scanning %s failed", self._settings.path)
                self._failed(_fault(error, self._settings.path))
            else:
                self._rest(began + self._settings.scan_seconds)

    def _scan(self) -> None:
        """Scan to the end, or until something fails or it is told to stop."""
        with self._asking():
            root = self._scanner.open()
        try:
            with self._asking():
                steps = self._scanner.walk(root).steps(root)
            while (step := self._next(steps)) is not None:
                self._look_at_space()
                if self._stopping.wait(self._pace.wait_seconds(step)):
                    steps.close()
                    return
        finally:
            with self._asking():
                root.close()
        result = self._scanner.finish()
        self._look_at_space()
        with self._board.lock:
            self._board.scans.append(result)
        self._answered()

    def _next(self, steps: Iterator[Step]) -> Step | None:
        with self._asking():
            step = next(steps, None)
        if step is not None:
            self._answered()
        return step

    def _answered(self) -> None:
        with self._board.lock:
            self._board.error = None
        self._board.answered.set()

    def _rest(self, until: float) -> None:
        """Wait for the next scan, looking at the size of the file system now and then."""
        while (left := until - self._monotonic()) > 0:
            if self._stopping.wait(min(left, SPACE_SECONDS)):
                return
            try:
                if self._look_at_space():
                    self._answered()
            except OSError as error:
                self._failed(unreadable(error, self._settings.path))

    def _look_at_space(self) -> bool:
        """Look at the size of the file system if that is due."""
        if self._monotonic() < self._space_due:
            return False
        with self._asking():
            space = self._mount.space()
        self._space_due = self._monotonic() + SPACE_SECONDS
        with self._board.lock:
            self._board.space = space
        return True

    def _failed(self, error: SourceUnreadable) -> None:
        with self._board.lock:
            self._board.error = error
            self._board.space = None
        self._board.answered.set()
        self._stopping.wait(self._retry_seconds)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with self._board.lock:
            self._board.asking_since = self._monotonic()
        try:
            yield
        finally:
            with self._board.lock:
                self._board.asking_since = None


def _fault(error: Exception, path: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"scanning the pool's directory failed: {type(error).__name__}: {error}",
        where=path,
        fix="report this; it is tried again",
    )
