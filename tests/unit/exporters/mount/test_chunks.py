"""Which chunks came and went between two scans."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exporters.mount.chunks import MOST_HASHES, Changes, chunks_of, compare
from exporters.mount.files import FILE, FileKind
from tierscope.domain.events import BlockAction, EvictionReason
from tierscope.domain.tiers import Tier

scans = st.lists(st.dictionaries(st.integers(1, 6), st.integers(1, 3)), min_size=2, max_size=6)
"""Scans in a row, each with the number of files of every chunk that is there."""


def files(parts, kind=FileKind.CHUNK):
    """Files of chunks: (key, number of files)."""
    rows = [
        (number, key, 100 + key, 1, 0, 0, key % 3, kind)
        for number, key in enumerate(key for key, count in parts for _ in range(count))
    ]
    return np.array(rows, dtype=FILE)


def told(chunks):
    return sorted(chunks["hash"].tolist())


class SlowPool:
    """The same rule, chunk by chunk."""

    def __init__(self, first):
        self.most = dict(first)
        self.whole = set(first)

    def next(self, now):
        stored, removed = set(), set()
        for key, count in now.items():
            self.most[key] = max(self.most.get(key, 0), count)
            if count == self.most[key]:
                stored |= {key} - self.whole
                self.whole.add(key)
            elif key in self.whole:
                removed.add(key)
                self.whole.remove(key)
        for key in set(self.most) - set(now):
            removed |= {key} & self.whole
            self.whole.discard(key)
            del self.most[key]
        return stored, removed


@given(scans=scans)
def test_what_changed_is_what_comparing_chunk_by_chunk_says(scans):
    """And what was there, with what came and without what went, is what is there."""
    slow = SlowPool(scans[0])
    chunks = chunks_of(files(scans[0].items()))
    for scan in scans[1:]:
        stored, removed = slow.next(scan)
        before = set(told(chunks[chunks["whole"]]))

        chunks, changes = compare(chunks, chunks_of(files(scan.items())))

        assert told(changes.stored) == sorted(100 + key for key in stored)
        assert told(changes.removed) == sorted(100 + key for key in removed)
        after = before - set(told(changes.removed)) | set(told(changes.stored))
        assert set(told(chunks[chunks["whole"]])) == after


def test_a_chunk_of_several_ranks_is_one_chunk():
    """Four files are stored once, and are gone once, when the first of them is."""
    nothing = chunks_of(files([]))
    chunks, changes = compare(nothing, chunks_of(files([(1, 4)])))
    assert told(changes.stored) == [101]

    chunks, changes = compare(chunks, chunks_of(files([(1, 3)])))
    assert told(changes.removed) == [101]

    _, changes = compare(chunks, chunks_of(files([])))
    assert told(changes.removed) == []


def test_a_chunk_seen_half_written_is_not_stored_twice():
    """The scan met one rank's file first and the others a scan later."""
    chunks, _ = compare(chunks_of(files([])), chunks_of(files([(1, 1)])))

    _, changes = compare(chunks, chunks_of(files([(1, 4)])))

    assert (told(changes.stored), told(changes.removed)) == ([], [])


def test_only_files_that_can_be_read_make_a_chunk():
    """Empty and temporary files are none; one that grows is taken for what it will be."""
    kinds = (FileKind.EMPTY, FileKind.TEMPORARY, FileKind.METADATA, FileKind.FOREIGN, FileKind.DIRECTORY)

    assert [len(chunks_of(files([(1, 1)], kind))) for kind in kinds] == [0, 0, 0, 0, 0]
    assert len(chunks_of(files([(1, 1)], FileKind.GROWING))) == 1


def test_what_could_not_be_read_and_is_not_known_stays():
    """After a restart nothing says which chunks lay in a folder that is now locked."""
    before = chunks_of(files([(1, 1), (2, 1)]))

    chunks, changes = compare(before, chunks_of(files([(2, 1), (3, 1)])), missing_is_removed=False)

    assert told(chunks) == [101, 102, 103]
    assert (told(changes.stored), told(changes.removed)) == ([103], [])
    assert np.all(np.diff(chunks["key"].astype(np.int64)) > 0)


def test_changes_are_told_as_events_of_bounded_size():
    """A pool that was emptied is many events, each of L2, each with the reason."""
    count = MOST_HASHES + 5
    some = chunks_of(files([(key, 1) for key in range(1, count + 1)]))
    none = chunks_of(files([]))

    events = list(Changes(stored=some[:3], removed=some).events("pool", 12.5))
    assert list(Changes(none, none).events("pool", 12.5)) == []

    assert {(event.tier, event.holder, event.at_unix_seconds) for event in events} == {
        (Tier.L2, "pool", 12.5)
    }
    counted = Counter()
    for event in events:
        assert len(event.block_hashes) <= MOST_HASHES
        counted[event.action, event.reason] += len(event.block_hashes)
    assert counted == {
        (BlockAction.EVICTED, EvictionReason.POOL_REMOVED): count,
        (BlockAction.STORED, None): 3,
    }
