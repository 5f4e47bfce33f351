"""Secrets leave only as keyed hashes."""

from __future__ import annotations

import pytest

from exporters.private import keyed_hash, load_key
from tierscope.domain.errors import BadSettings


def test_equal_secrets_give_equal_numbers_under_one_key():
    """Sessions can be joined without being known; another key gives other numbers."""
    ours, theirs = keyed_hash(b"a" * 16), keyed_hash(b"b" * 16)

    assert ours("session-1") == ours("session-1") == ours(b"session-1")
    assert ours("session-1") != ours("session-2")
    assert ours("session-1") != theirs("session-1")
    assert 0 <= ours("session-1") < 1 << 64


def test_no_secret_gives_no_number():
    """Absent stays absent; an empty salt is a salt."""
    assert keyed_hash(b"a" * 16)(None) is None
    assert keyed_hash(b"a" * 16)("") is not None


def test_a_key_file_is_read_and_its_line_end_dropped(tmp_path):
    """A file written by a person ends with a line end."""
    path = tmp_path / "key"
    path.write_bytes(b"0123456789abcdef\n")

    assert load_key(str(path), random_bytes=bytes) == b"0123456789abcdef"


def test_without_a_file_the_key_is_random():
    """The numbers of one run then join only with each other."""
    assert load_key(None, random_bytes=lambda n: b"r" * n) == b"r" * 32


@pytest.mark.parametrize("content", [None, b"", b"short", b"x" * 65])
def test_a_key_that_cannot_be_used_is_refused_by_name(tmp_path, content):
    """Missing, too short or too long: the message names the file and says what to write."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BadSettings) as caught:
        load_key(str(path), random_bytes=bytes)

    assert str(path) in caught.value.where
    assert "16 to 64" in caught.value.fix
