"""The one thread that touches the mount, and those who wait for its news."""

from __future__ import annotations

import errno
import time

import pytest

from exporters.mount.scan import Scanner
from exporters.mount.walk import Step
from exporters.mount.watcher import BURST_SECONDS, Pace, Watcher
from exporters.private import keyed_hash
from tests.exporting import await_true
from tests.pools import MemoryMount, failure, server_name
from tierscope.domain.mount_settings import MountSettings


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def settings(**fields):
    return MountSettings(**{"pool": "pool", "path": "/mnt/kv", "scan_seconds": 0.01, **fields})


@pytest.fixture
def mount():
    mount = MemoryMount({server_name(i): 4 for i in range(4)})
    yield mount
    mount.running.set()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(mount):
    """Start a watcher by a clock."""
    started = []

    def start(monotonic=time.monotonic, **fields):
        chosen = settings(**fields)
        scanner = Scanner(
            chosen, mount, keyed_hash(b"a key of sixteen"), clock=time.time, monotonic=time.monotonic
        )
        watcher = Watcher(chosen, mount, scanner, monotonic=monotonic, retry_seconds=0.01)
        watcher.start()
        started.append(watcher)
        return watcher

    yield start
    mount.running.set()
    for watcher in started:
        watcher.stop()
        await_true(lambda one=watcher: not one.alive, "the scan ended")


def take(watcher):
    return watcher.take(first_answer_within_seconds=10)


def test_scans_follow_each_other(watch):
    """Each complete one is told once."""
    watcher = watch()
    scans = []

    await_true(lambda: scans.extend(take(watcher).scans) or len(scans) >= 3, "three scans ended")

    assert [scan.changes is None for scan in scans[:3]] == [True, False, False]


def test_the_size_of_the_file_system_is_told(watch, mount):
    """It is looked at beside the scan."""
    watcher = watch()

    await_true(lambda: take(watcher).space is not None, "the size was looked at")

    assert take(watcher).space.capacity_bytes == mount.capacity_bytes


def test_a_mount_that_hangs_holds_nobody_but_its_thread(watch, mount, clock):
    """Who asks is answered at once: nothing for so long. When it answers, the scan goes on."""
    watcher = watch(monotonic=clock, timeout_seconds=10, scan_seconds=3600)
    await_true(lambda: take(watcher).scans, "the first scan ended")
    mount.running.clear()
    clock.now += 3600
    await_true(watcher.is_waiting, "the mount was asked again")
    assert take(watcher).error is None, "it may take its time"

    clock.now += 11
    error = take(watcher).error
    mount.running.set()

    assert "not answered for 11 s" in error.what
    assert error.where == "/mnt/kv"
    await_true(lambda: take(watcher).scans, "the second scan ended")
    assert take(watcher).error is None


def test_a_mount_that_never_answered_is_not_up(watch, mount):
    """Nothing is known of it."""
    mount.running.clear()

    news = watch().take(first_answer_within_seconds=0.01)

    assert "not answered yet" in news.error.what


def test_a_mount_that_went_away_is_told_until_it_is_back(watch, mount):
    """The size it had is not told meanwhile."""
    watcher = watch()
    await_true(lambda: take(watcher).scans, "the first scan ended")
    mount.faults["list", ""] = failure(errno.ENOTCONN)

    await_true(lambda: take(watcher).error is not None, "the failure was told")
    assert take(watcher).space is None
    mount.faults.clear()

    await_true(lambda: take(watcher).scans, "a scan ended")
    assert take(watcher).error is None


def test_a_fault_of_ours_is_told_and_the_thread_lives(watch, mount):
    """An error nobody thought of must not end the scans in silence."""
    mount.faults["look", server_name(0)] = RuntimeError("nobody thought of this")
    watcher = watch()
    await_true(lambda: take(watcher).error is not None, "the fault was told")
    assert "nobody thought of this" in take(watcher).error.what
    mount.faults.clear()

    await_true(lambda: take(watcher).scans, "a scan ended")


def test_stopping_ends_a_scan_that_waits_for_its_rate(watch, mount):
    """And closes what it had open."""
    watcher = watch(names_per_second=0.001)
    await_true(lambda: mount.calls.get("list"), "a scan began")

    watcher.stop()
    watcher.join()

    await_true(lambda: not watcher.alive, "the scan ended")
    assert mount.open_folders == 0


def test_a_scan_asks_no_more_in_a_second_than_it_may(clock):
    """Names and lookups have their own rates; unused time is saved for a moment only."""
    pace = Pace(settings(names_per_second=1000, lookups_per_second=10), clock)
    clock.now += 3600

    waits = [pace.wait_seconds(Step(100, 0)), pace.wait_seconds(Step(100, 0)), pace.wait_seconds(Step(0, 10))]

    assert waits == pytest.approx([0, 0, 0.2 + 1.0 - BURST_SECONDS])
    clock.now += waits[-1]
    assert pace.wait_seconds(Step(0, 5)) == pytest.approx(0.5)
