"""Files that are read again when they change, and only then."""

from __future__ import annotations

import os

import pytest

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.watched_files import WatchedFiles


@pytest.fixture
def paths(tmp_path):
    """Two files that are watched together."""
    found = [tmp_path / "a", tmp_path / "b"]
    for path in found:
        path.write_text(path.name)
    return found


class Reading:
    """Reads files whose text is lower case, and counts how often."""

    def __init__(self, paths):
        self._paths = paths
        self.times = 0

    def __call__(self):
        self.times += 1
        try:
            text = "".join(path.read_text() for path in self._paths)
        except OSError as error:
            raise BadSettings([TierscopeError("it is gone", where="here", fix="write it")]) from error
        if not text.islower():
            raise BadSettings([TierscopeError("this is no text", where="here", fix="write another")])
        return text


def test_they_are_read_again_when_one_of_them_is_another(paths):
    """Not at each look."""
    reading = Reading(paths)
    watched = WatchedFiles(paths, reading)
    assert (watched.value, watched.value, reading.times) == ("ab", "ab", 1)

    paths[1].write_text("longer")
    assert (watched.value, watched.value, reading.times) == ("alonger", "alonger", 2)


def test_a_file_exchanged_for_one_as_long_and_as_old_is_another(paths):
    """As Kubernetes exchanges what is behind a link."""
    watched = WatchedFiles(paths, Reading(paths))
    status = paths[0].stat()
    new = paths[0].with_name("new")
    new.write_text("c")
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.replace(paths[0])

    assert watched.value == "cb"


def test_what_cannot_be_used_leaves_what_was_before_and_is_said_once(paths, caplog):
    """Half-written, or gone; what comes after it counts again."""
    watched = WatchedFiles(paths, Reading(paths))
    paths[0].write_text("NO")
    assert (watched.value, watched.value) == ("ab", "ab")
    assert caplog.text.count("this is no text") == 1

    paths[0].unlink()
    assert (watched.value, watched.value) == ("ab", "ab")
    assert caplog.text.count("it is gone") == 1

    paths[0].write_text("new")
    assert watched.value == "newb"


def test_at_first_it_is_the_callers_to_say(paths):
    """Nothing was before."""
    paths[0].unlink()
    with pytest.raises(BadSettings, match="it is gone"):
        WatchedFiles(paths, Reading(paths))
