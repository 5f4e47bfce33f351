"""The operating system's side of a mount, on real directories."""

from __future__ import annotations

import os

import pytest

from exporters.mount.fetch import NAMES_PER_LIST, EntryKind, OsMount, unreadable
from tests.pools import NOW, failure, is_open, write


@pytest.fixture
def root(tmp_path):
    folder = OsMount(str(tmp_path)).open()
    yield folder
    folder.close()


def names(folder):
    return sorted(name for some in folder.lists() for name in some)


def test_names_come_a_few_at_a_time(tmp_path, root):
    """A directory of any size is never held whole."""
    count = NAMES_PER_LIST + 3
    for i in range(count):
        (tmp_path / str(i)).touch()

    sizes = [len(some) for some in root.lists()]

    assert sizes == [NAMES_PER_LIST, 3]


def test_an_entry_is_looked_at_without_following_it(tmp_path, root):
    """Kind, size and time of a file; a link is a link, whatever it points to."""
    write(tmp_path, "chunk", 5, age_seconds=100)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/")

    file = root.look("chunk")

    assert (file.kind, file.size_bytes, file.modified_unix_seconds) == (EntryKind.FILE, 5, NOW - 100)
    assert root.look("folder").kind is EntryKind.DIRECTORY
    assert root.look("link").kind is EntryKind.OTHER


def test_nothing_is_entered_or_read_through_a_link(tmp_path, root):
    """A link in the pool cannot lead the scan out of it."""
    outside = tmp_path / "outside"
    write(outside, "secret", 3)
    (tmp_path / "folder").symlink_to(outside)
    (tmp_path / "file").symlink_to(outside / "secret")

    with pytest.raises(OSError, match=r"[Dd]irectory|symbolic"):
        root.enter("folder")
    with pytest.raises(OSError, match=r"symbolic|levels"):
        root.content("file", 10)


def test_a_pipe_is_not_waited_for(tmp_path, root):
    """Opening one for reading would wait until somebody writes."""
    os.mkfifo(tmp_path / "pipe")

    assert root.content("pipe", 10) == b""


def test_a_folder_below_is_read_and_given_back(tmp_path, root):
    """Its names are its own, its descriptor is closed."""
    write(tmp_path, "a/b/chunk")

    folder = root.enter("a")

    assert names(folder) == ["b"]
    assert folder.device == root.device
    folder.close()
    assert not is_open(folder.descriptor)


def test_only_the_beginning_of_a_file_is_read(tmp_path, root):
    """Whatever calls itself config.json."""
    write(tmp_path, "config.json", 1000)

    assert len(root.content("config.json", 10)) == 10


def test_space_is_that_of_the_whole_file_system(tmp_path):
    """As `df` has it: used is what is not free, root's reserve included."""
    space = OsMount(str(tmp_path)).space()
    answer = os.statvfs(tmp_path)

    assert space.capacity_bytes == answer.f_blocks * answer.f_frsize
    assert 0 < space.used_bytes <= space.capacity_bytes


@pytest.mark.parametrize(
    ("number", "hint"), [(13, "user"), (2, "name the directory"), (107, "volume is mounted")]
)
def test_an_error_says_what_to_do(number, hint):
    """Denied, not there, and disconnected want different hands."""
    error = unreadable(failure(number), "/mnt/pool")

    assert hint in error.fix
    assert error.where == "/mnt/pool"
