"""Any name in a pool's directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.mount.chunk_file import ChunkFormat
from exporters.mount.parse import LONGEST_SHOWN, NameReader, is_temporary, shown
from exporters.private import keyed_hash
from tests.pools import engine_name, native_path, server_name

READER = NameReader(keyed_hash(b"a key of sixteen"), temporary_directories=("being-written",))


def test_each_format_is_told_by_the_name():
    """One directory may hold them all."""
    *folders, native = native_path(3).split("/")
    found = [
        READER.read((), server_name(1)),
        READER.read((), engine_name(2)),
        READER.read(folders, native),
        READER.read((), engine_name(4, ending=".pt")),
    ]

    assert [(file.format, file.chunk_hash) for file in found] == [
        (ChunkFormat.LMCACHE_MP, 1),
        (ChunkFormat.LMCACHE_INPROCESS, 2),
        (ChunkFormat.VLLM_NATIVE, 3),
        (ChunkFormat.LMCACHE_DISK, 4),
    ]


def test_a_directory_can_be_one_of_files_being_written():
    """LMCache can write beside, under the final name; only the settings know where."""
    assert READER.read(("kv", "being-written"), server_name(1)).temporary
    assert not READER.read(("kv",), server_name(1)).temporary


def test_a_temporary_name_needs_no_format():
    """An engine probes a directory with a file of its own."""
    assert is_temporary(".o_direct_probe_812345.tmp")
    assert not is_temporary("notes.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.txt", "notes.txt"),
        ("m@0x1@0@abcd@tenant-7@x.data", "m@….data"),
        ("m@secret", "m@…"),
        ("bad\udcff\n.txt", "bad\\udcff\\n.txt"),
    ],
)
def test_a_foreign_name_is_shown_without_what_may_be_a_secret(name, text):
    """After an @ stands a salt or a tag; control characters are spelled out."""
    assert shown(name) == text


@given(name=st.text(max_size=300), folders=st.lists(st.text(max_size=30), max_size=4))
def test_any_name_is_read_or_foreign_and_can_be_shown(name, folders):
    """Nothing in a directory makes the reader fail."""
    READER.read(folders, name)

    assert len(shown(name)) <= LONGEST_SHOWN
