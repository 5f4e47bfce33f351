"""LMCache's file names, as its releases write them."""

from __future__ import annotations

import json

import pytest

from exporters.mount.chunk_file import ChunkFile, ChunkFormat
from exporters.mount.lmcache_names import parse_lmcache_name
from exporters.private import keyed_hash
from tests.pools import engine_name, server_name
from tierscope.domain.units import BLOCK_HASH_MASK

SECRET = keyed_hash(b"a key of sixteen")
DIGEST = "00efff1e096d475254ebb463b265e58a25aeb8ab106d0494614dd2a5d20289bc"


def read(name):
    return parse_lmcache_name(name, SECRET)


def test_every_file_of_a_recorded_server_is_a_chunk_it_looked_up(captures):
    """62 files of one model; their hashes are those of the server's own lookup log."""
    folder = captures / "lmcache" / "mp_pull"
    names = (folder / "l2_dir_listing.txt").read_text("utf-8").split()
    lookups = [json.loads(line) for line in (folder / "lookup_hashes.jsonl").read_text("utf-8").splitlines()]

    files = [read(name) for name in names]

    assert len(files) == 62
    assert {(file.format, file.model, file.rank, file.world, file.group) for file in files} == {
        (ChunkFormat.LMCACHE_MP, "test-model", 0, 1, 0)
    }
    looked_up = {int(digits, 16) & BLOCK_HASH_MASK for line in lookups for digits in line["chunk_hashes"]}
    assert {file.chunk_hash for file in files} <= looked_up


def test_every_file_of_a_recorded_engine_is_a_chunk_it_told_its_controller(captures):
    """74 files; their unsigned hashes are the signed ones that the engine admitted to its L1."""
    folder = captures / "lmcache" / "inproc_fs"
    names = (folder / "l2_dir_listing.txt").read_text("utf-8").split()
    messages = (folder / "controller_messages.jsonl").read_text("utf-8").splitlines()
    told = [operation for line in messages for operation in json.loads(line).get("operations", [])]

    files = [read(name) for name in names]

    assert len(files) == 74
    assert {(file.format, file.model, file.rank, file.world, file.layout) for file in files} == {
        (ChunkFormat.LMCACHE_INPROCESS, "test-model", 0, 1, "half")
    }
    assert {file.chunk_hash for file in files} == {
        operation["key"] % (1 << 64) for operation in told if operation["op_type"] == "admit"
    }


def test_a_servers_rank_is_four_numbers_in_one():
    """World size and rank are the upper two bytes; the group is hexadecimal; slashes come back."""
    file = read(f"org-SEP-m-SEP-v1@0x08050401@1f@{DIGEST}.data")

    assert file == ChunkFile(
        ChunkFormat.LMCACHE_MP, "org/m/v1", 0x614DD2A5D20289BC, rank=5, world=8, group=31
    )


def test_a_salt_is_known_by_its_keyed_hash_alone():
    """Equal salts are equal, and what is kept does not hold them."""
    file = read(server_name(1, salt="tenant-7"))

    assert file.salt_hash == SECRET("tenant-7")
    assert "tenant" not in repr(file)
    assert read(server_name(1)).salt_hash is None


def test_the_tags_of_an_engine_are_hashed_like_a_salt():
    """Tags keep chunks apart, and say who somebody is."""
    file = read("m@1@0@-ff@half@user%anna@team%x@y.data")

    assert (file.layout, file.layer, file.chunk_hash) == ("half", None, (1 << 64) - 255)
    assert file.salt_hash == SECRET("user%anna@team%x@y")


@pytest.mark.parametrize("ending", [".tmp", ".data.tmp"])
@pytest.mark.parametrize("whole", [server_name(9), server_name(9, salt="v1.5"), engine_name(9)])
def test_a_file_being_written_is_the_chunk_it_will_be(whole, ending):
    """The adapters put `.tmp` in place of the ending or after it."""
    file = read(whole.removesuffix(".data") + ending)

    assert file.temporary
    assert file.chunk_hash == 9
    assert not read(whole).temporary


def test_layers_kept_apart_are_parts_of_one_chunk():
    """One file a layer: the same hash with a number after the dtype."""
    file = read("m@2@1@ff@bfloat16@17.data")

    assert (file.layer, file.rank, file.world, file.chunk_hash) == (17, 1, 2, 255)


def test_a_local_disk_writes_the_same_names_with_another_ending():
    """Its model's slashes became hyphens for good."""
    file = read("org-m@1@0@-1@half.pt")

    assert (file.format, file.model) == (ChunkFormat.LMCACHE_DISK, "org-m")
    assert file.chunk_hash == BLOCK_HASH_MASK


def test_a_hash_of_bytes_counts_by_its_last_eight():
    """An engine with a digest as hash writes all of it."""
    assert read(f"m@1@0@{DIGEST}@half.data").chunk_hash == 0x614DD2A5D20289BC


@pytest.mark.parametrize(
    ("name", "layer", "salted"),
    [
        ("vllm@org-m@2@1@-ff.data", None, False),
        ("vllm@org-m@2@1@-ff@3.data", 3, False),
        ("vllm@org-m@2@1@-ff@user%a.data", None, True),
    ],
)
def test_names_of_older_releases_begin_with_a_format(name, layer, salted):
    """Up to 0.3.9: no dtype, and hyphens for slashes."""
    file = read(name)

    assert (file.format, file.model, file.world, file.rank) == (ChunkFormat.LMCACHE_INPROCESS, "org-m", 2, 1)
    assert (file.layer, file.salt_hash is not None, file.chunk_hash) == (layer, salted, (1 << 64) - 255)


@pytest.mark.parametrize(
    "name",
    [
        "notes.data",
        "m@0x01000100@0@zz.data",
        "m@0x01000100@0@abc.data",
        "m@0x0100@0@abcd.data",
        f"m@0x01000100@0@{DIGEST}@salt@more.data",
        f"m@0x01000100@0@{DIGEST}.bin",
        "m@1@0@ff@Half Precision.data",
        "m@1@0@ff.pt",
        "m@1@0@.data",
        "@1@0@ff@half.data",
        ".data",
    ],
)
def test_anything_else_is_foreign(name):
    """A name that is nearly right is not guessed at."""
    assert read(name) is None
