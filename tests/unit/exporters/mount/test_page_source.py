"""One pool's mount as a source of the exporter."""

from __future__ import annotations

import errno
import time

import pytest

from exporters.health import Health, Voice
from exporters.ledger import Ledger
from exporters.mount.page_source import MountSource
from exporters.oddities import Oddities
from exporters.pages import Desk, PagePoller
from exporters.pools import PoolFacts
from exporters.private import keyed_hash
from tests.exporting import await_true
from tests.pools import MemoryMount, failure, server_name
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason, TierSample
from tierscope.domain.mount_settings import MountSettings
from tierscope.domain.pool import PoolFiles
from tierscope.domain.tiers import Tier
from tierscope.registry import metrics


@pytest.fixture
def mount():
    return MemoryMount({server_name(i): 4 for i in range(4)})


@pytest.fixture
def open_source(mount):
    """Make a source; all are stopped at the end."""
    made = []

    def make(facts=None, **fields):
        settings = MountSettings(**{"pool": "pool", "path": "/mnt/kv", "scan_seconds": 0.01, **fields})
        source = MountSource(
            settings,
            facts or PoolFacts(),
            keyed_hash(b"a key of sixteen"),
            clock=time.time,
            monotonic=time.monotonic,
            mount=mount,
            retry_seconds=0.01,
        )
        made.append(source)
        return source

    yield make
    mount.running.set()
    for source in made:
        source.stop()


class Readings:
    """Reads a source again and again and keeps what it gave."""

    def __init__(self, source):
        self.source = source
        self.entries = []
        self.oddities = []
        self.undecodable = 0

    def read(self):
        reading = self.source.read(None, time.time())
        self.entries += reading.entries
        self.oddities += reading.oddities
        self.undecodable += reading.units.undecodable
        return reading

    def until(self, condition, what):
        def holds():
            self.read()
            return condition()

        await_true(holds, what)

    def events(self):
        return [
            (entry.action, entry.reason, sorted(entry.block_hashes))
            for entry in self.entries
            if isinstance(entry, BlockEvent)
        ]

    def sizes(self):
        return [entry for entry in self.entries if isinstance(entry, TierSample)]


def shown(source, metric):
    return {sample.labels[1:]: sample.value for sample in source.samples() if sample.metric is metric}


def test_a_file_that_was_unlinked_is_an_eviction_of_l2(open_source, mount):
    """Within one scan, with the reason, and counted for its model."""
    readings = Readings(open_source())
    readings.until(lambda: shown(readings.source, metrics.POOL_FILES), "a scan ended")
    assert readings.events() == []
    del mount.tree[server_name(2)]
    mount.tree[server_name(7)] = 4

    readings.until(lambda: len(readings.events()) == 2, "the changes were told")

    assert readings.events() == [
        (BlockAction.EVICTED, EvictionReason.POOL_REMOVED, [2]),
        (BlockAction.STORED, None, [7]),
    ]
    assert shown(readings.source, metrics.POOL_STORED_BLOCKS) == {("org/m",): 1}
    assert shown(readings.source, metrics.POOL_REMOVED_BLOCKS) == {("org/m",): 1}
    assert shown(readings.source, metrics.POOL_FILES) == {("chunk", "org/m"): 4}
    assert shown(readings.source, metrics.POOL_FILE_BYTES) == {("chunk", "org/m"): 16}


def test_the_feed_has_files_and_bytes_by_model_and_kind(open_source, mount):
    """Each scan's add up to the directory, and have its time."""
    mount.tree["readme"] = 7
    mount.tree[server_name(9, model="org/other")] = 5
    readings = Readings(open_source())

    def told():
        return [entry for entry in readings.entries if isinstance(entry, PoolFiles)]

    readings.until(told, "the first scan ended")

    scan = [entry for entry in told() if entry.at_unix_seconds == told()[0].at_unix_seconds]
    assert {(e.holder, e.kind, e.model, e.files, e.size_bytes) for e in scan} == {
        ("pool", "chunk", "org/m", 4, 16),
        ("pool", "chunk", "org/other", 1, 5),
        ("pool", "foreign", "unknown", 1, 7),
    }


def test_the_pools_size_is_told_where_no_master_tells_it(open_source):
    """One reading of L2, under the pool's name."""
    readings = Readings(open_source())

    readings.until(lambda: readings.sizes() and readings.sizes()[-1].used_blocks == 4, "the size was told")

    last = readings.sizes()[-1]
    assert (last.tier, last.holder, last.capacity_bytes, last.used_bytes) == (Tier.L2, "pool", 1000, 100)


def test_the_masters_reading_wins(open_source):
    """As long as it answers, there is one reading of the pool; afterwards there is ours."""
    facts = PoolFacts(master_tells=True)
    readings = Readings(open_source(facts))
    readings.until(lambda: shown(readings.source, metrics.POOL_FILES), "a scan ended")
    assert readings.sizes() == []

    facts.master_tells = False

    readings.until(readings.sizes, "the size was told")


def test_a_pool_that_cannot_be_read_shows_no_files(open_source, mount):
    """What it held is not known now; what was counted stays counted."""
    readings = Readings(open_source())
    readings.until(lambda: shown(readings.source, metrics.POOL_FILES), "a scan ended")
    del mount.tree[server_name(1)]
    readings.until(readings.events, "the eviction was told")
    mount.faults["list", ""] = failure(errno.ENOTCONN)

    def fails():
        try:
            readings.read()
        except SourceUnreadable:
            return True
        return False

    await_true(fails, "the mount was gone")

    assert shown(readings.source, metrics.POOL_FILES) == {}
    assert shown(readings.source, metrics.POOL_SCAN_SECONDS) == {}
    assert shown(readings.source, metrics.POOL_REMOVED_BLOCKS) == {("org/m",): 1}
    mount.faults.clear()
    await_true(lambda: not fails() and shown(readings.source, metrics.POOL_FILES), "it was back")


def test_strangers_and_locked_folders_are_told(open_source, mount):
    """By name, counted, and the share that was not read is on record."""
    mount.tree |= {"readme": 1, "locked": {}}
    mount.faults["enter", "locked"] = failure(errno.EACCES)
    readings = Readings(open_source())

    readings.until(lambda: len(readings.oddities) >= 2, "they were told")

    told = {oddity.what: oddity for oddity in readings.oddities}
    assert "readme" in told["foreign file"].error.what
    assert "locked: Permission denied" in told["unreadable folder"].error.what
    assert readings.undecodable >= 1


def test_what_changed_during_a_restart_is_told(open_source, mount, tmp_path):
    """From the state file of the process before."""
    state_file = str(tmp_path / "state")
    before = Readings(open_source(state_file=state_file))
    before.until((tmp_path / "state").exists, "the state was kept")
    before.source.stop()
    del mount.tree[server_name(3)]

    after = Readings(open_source(state_file=state_file))

    after.until(after.events, "the eviction was told")
    assert after.events() == [(BlockAction.EVICTED, EvictionReason.POOL_REMOVED, [3])]


def test_a_state_is_kept_once_its_events_are_out(open_source, mount, tmp_path):
    """Who is killed before tells them after the restart: perhaps once more, never not at all."""
    state_file = tmp_path / "state"
    before = Readings(open_source(state_file=str(state_file)))
    before.until(state_file.exists, "the first scan was kept")
    kept = state_file.read_bytes()
    del mount.tree[server_name(3)]
    before.until(before.events, "the eviction was told")
    assert state_file.read_bytes() == kept, "the reading that told it may not be published yet"

    before.until(lambda: state_file.read_bytes() != kept, "the next reading kept it")


@pytest.mark.parametrize("content", [b"", b"torn"])
def test_a_bad_state_file_is_told_and_begun_anew(open_source, tmp_path, content):
    """It costs the comparison with the time before, nothing else."""
    state_file = tmp_path / "state"
    state_file.write_bytes(content)
    readings = Readings(open_source(state_file=str(state_file)))

    readings.until(lambda: shown(readings.source, metrics.POOL_FILES), "a scan ended")

    assert [oddity.what for oddity in readings.oddities] == ["state not used"]
    assert readings.events() == []


def test_a_state_that_cannot_be_kept_is_told(open_source, tmp_path):
    """The scan goes on without it."""
    readings = Readings(open_source(state_file=str(tmp_path / "no-folder" / "state")))

    readings.until(lambda: "state not kept" in {oddity.what for oddity in readings.oddities}, "it was told")


def test_the_age_of_a_scan_is_shown(open_source):
    """A figure that is hours old looks like one of now."""
    readings = Readings(open_source(scan_seconds=3600))
    readings.until(lambda: shown(readings.source, metrics.POOL_SCAN_AGE_SECONDS), "a scan ended")

    first = shown(readings.source, metrics.POOL_SCAN_AGE_SECONDS)[()]

    assert 0 <= first <= shown(readings.source, metrics.POOL_SCAN_AGE_SECONDS)[()]


def test_a_mount_that_hangs_is_down_and_delays_nobody(open_source, mount):
    """The poller goes on, the page says 0, and 1 again when it answers."""
    source = open_source(timeout_seconds=0.05)
    health = Health(
        source.source,
        fresh_seconds=60,
        since_unix_seconds=0,
        monotonic=time.monotonic,
        voice=Voice(warn=lambda *_: None, inform=lambda *_: None),
    )
    ledger = Ledger("exporter", lambda _: None)
    desk = Desk(ledger, Oddities(lambda *_: None, monotonic=time.monotonic), time.time, time.monotonic)
    poller = PagePoller(source, health, desk, poll_seconds=0.01, timeout_seconds=1)

    def is_up():
        return next(sample.value for sample in health.samples() if sample.metric is metrics.SOURCE_UP)

    def tells_capacity():
        return any(sample.metric is metrics.CAPACITY_BYTES for sample in ledger.samples())

    poller.start()
    await_true(lambda: is_up() and tells_capacity(), "the mount was up")
    mount.running.clear()
    await_true(lambda: not is_up(), "the hanging mount was down")

    assert not tells_capacity()
    mount.running.set()
    await_true(lambda: is_up() and tells_capacity(), "it was back")
    poller.stop()
    poller.join()
