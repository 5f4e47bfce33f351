"""The sorted array of a pool's files."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exporters.mount.files import (
    FILE,
    NO_FILES,
    ROWS_A_BLOCK,
    FileBuffer,
    FileKind,
    child_key,
    find,
    kept,
    merged,
    path_keys,
)

keys_of_files = st.lists(st.integers(0, (1 << 64) - 1), max_size=40)


def files(keys):
    return np.array([(key, 0, 0, key % 1000, 0, 0, 0, FileKind.CHUNK) for key in keys], dtype=FILE)


def test_a_file_takes_43_bytes():
    """A million files are 43 MB, however long their names."""
    assert FILE.itemsize == 43


@given(parts=st.lists(keys_of_files, max_size=4))
def test_merging_sorts_and_drops_what_is_there_twice(parts):
    """A listing that was interrupted names files again."""
    arrays = [files(keys) for keys in parts]

    together = merged(arrays)

    expected = sorted({key for keys in parts for key in keys})
    assert together["path_key"].tolist() == expected
    assert together["size_bytes"].tolist() == [key % 1000 for key in expected]
    assert arrays == []


@given(keys=keys_of_files, keep=st.data())
def test_keeping_some_keeps_their_order(keys, keep):
    """The array shrinks in place."""
    mask = np.array(keep.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys))), dtype=bool)

    left = kept(files(keys), mask)

    assert left["path_key"].tolist() == [key for key, kept_ in zip(keys, mask, strict=True) if kept_]


def test_a_pool_that_lost_most_of_its_files_gives_their_memory_back():
    """What is left is no view of the large array."""
    large = files(range(100))

    assert kept(large, np.arange(100) < 10).base is None


@given(keys=keys_of_files, wanted=keys_of_files)
def test_finding_says_where_and_whether(keys, wanted):
    """Whether it is there is exact; where may be used only if it is."""
    ordered = np.array(sorted(set(keys)), dtype=np.uint64)

    places, found = find(ordered, np.array(wanted, dtype=np.uint64))

    assert found.tolist() == [key in set(keys) for key in wanted]
    assert ordered[places[found]].tolist() == [key for key in wanted if key in set(keys)]


def test_a_name_has_another_key_in_another_folder():
    """The same block of two ranks is two files."""
    root, folder = path_keys(["a", "b"], 0), path_keys(["a", "b"], child_key(0, "r1"))

    assert len({*root.tolist(), *folder.tolist()}) == 4
    assert child_key(child_key(0, "a"), "b") != child_key(child_key(0, "b"), "a")


def test_a_buffer_gives_back_what_was_added_in_order():
    """Whatever the blocks it was kept in."""
    buffer = FileBuffer()
    sizes = [0, ROWS_A_BLOCK - 1, 1, 0, 2, ROWS_A_BLOCK]
    numbers = iter(range(sum(sizes)))
    for size in sizes:
        buffer.append([(next(numbers), 0, 0, 0, 0, 0, 0, 1) for _ in range(size)])

    assert np.concatenate(buffer.take())["path_key"].tolist() == list(range(sum(sizes)))
    assert buffer.take() == []


def test_nothing_merged_is_nothing():
    """An empty directory."""
    assert len(merged([])) == len(merged([NO_FILES, NO_FILES])) == 0
