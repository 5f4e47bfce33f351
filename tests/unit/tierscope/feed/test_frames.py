"""Frames that cannot be meant are refused; those at the edge are read."""

from __future__ import annotations

import pytest

from tierscope.domain.errors import BadInput
from tierscope.feed.frames import END, LARGEST_SEQUENCE, pack_sequence, read_live, read_replayed


def test_a_sequence_no_stream_reaches_is_damage():
    """One flipped high bit must not make 2^60 messages missing for good."""
    with pytest.raises(BadInput, match="cannot be meant"):
        read_live([b"", pack_sequence(LARGEST_SEQUENCE + 1), b"payload"], where="stream")
    with pytest.raises(BadInput, match="cannot be meant"):
        read_replayed([b"", b"", pack_sequence(2**60), b"payload"], where="stream")


def test_the_largest_sequence_and_the_end_are_read():
    """The bound itself is a number, and the end marker is no number."""
    assert read_live([b"", pack_sequence(LARGEST_SEQUENCE), b"p"], where="stream") == (LARGEST_SEQUENCE, b"p")
    assert read_replayed([b"", b"", END, b""], where="stream") is None
