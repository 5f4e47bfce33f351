"""Readers of files and frames that others write, and what must hold whatever is in them."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from exporters.lmcache.storage_stream import StorageStream
from exporters.mount.fetch import EntryKind, EntryStat
from exporters.mount.files import FileKind
from exporters.mount.models import Models
from exporters.mount.native_names import config_digest, parse_config
from exporters.mount.parse import NameReader
from exporters.mount.recognise import Recogniser
from exporters.page_state import PageState, Position
from exporters.private import keyed_hash
from exporters.storage_reads import StorageReads
from tests.captured import ENGINE
from tierscope.cli.settings_file import load_deployment, load_settings
from tierscope.domain.errors import BadInput, BadSettings
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.feed.frames import pack_sequence, read_live, read_replayed, read_request
from tierscope.traces.open import read_trace
from tierscope_probe.storage import write_record

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parent.parent
NOW = 1_700_000_000.0
KINDS = set(map(int, FileKind))


def storage(data: bytes) -> None:
    """Every item of the storage hook's payload is a record or an oddity."""
    stream = StorageStream("pool", 0, StorageReads("inside"), where="fuzz")
    try:
        first = stream.message(data, 1)
    except BadInput:
        return
    items = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    assert sum(one.count for one in first.oddities) <= len(items)
    assert first.missing >= 0
    assert stream.message(data, 2).missing >= 0


def pool_files(data: bytes) -> None:
    """Each line is the path of a file in a pool, and the whole a model's configuration: all get a row."""
    recogniser = Recogniser(NameReader(keyed_hash(b"k" * 16), ("locks",)), Models())
    lines = data.split(b"\n")[:50]
    for line in lines:
        *folders, name = os.fsdecode(line).split("/")
        for kind in (EntryKind.FILE, EntryKind.DIRECTORY):
            row = recogniser.row(1, folders, name, EntryStat(kind, len(line), NOW), NOW)
            assert row[-1] in KINDS
        digest, full_name = config_digest(folders, name), parse_config(data)
        if digest is not None and full_name is not None:
            recogniser.models.spell_out(digest, full_name)
    foreign = recogniser.take_foreign()
    assert 0 <= foreign.count <= 2 * len(lines)
    assert all(text.isprintable() for text in foreign.examples)


def frames(data: bytes) -> None:
    """Frames of a stream, cut at each of the first byte, are a message or refused by name."""
    parts = data[1:].split(data[:1]) if data else []
    for read in (read_live, read_replayed, read_request):
        try:
            read(parts, where="fuzz")
        except BadInput:
            continue


def page_state(data: bytes) -> None:
    """A file of positions is used or not, and written anew either way."""
    path = _written(data)
    source = SourceId(SourceKind.VLLM_EVENTS, str(ENGINE))
    state = PageState(str(path), "exporter")
    state.position(source)
    state.keep({source: Position(7, NOW, frozenset({"r"}))})
    assert PageState(str(path), "exporter").position(source) == Position(7, NOW, frozenset({"r"}))


def trace(data: bytes) -> None:
    """A trace is read, or refused by name; with its bad lines left out every line is in it or counted."""
    path = _written(data)
    for skip_bad in (False, True):
        try:
            found = read_trace(path, skip_bad=skip_bad)
        except BadInput:
            continue
        assert skip_bad or not found.skipped_lines
        assert (found.input_tokens > 0).all()
        assert (found.block_ids >= 0).all()


def settings(data: bytes) -> None:
    """A file of settings is one, or every problem in it is named."""
    path = _written(data)
    for load in (load_settings, load_deployment):
        with suppress(BadSettings):
            load(path)


@cache
def _file() -> Path:
    """One file, in memory where there is room: it is written anew for every input."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    handle, name = tempfile.mkstemp(prefix="fuzz-", dir=folder)
    os.close(handle)
    return Path(name)


def _written(data: bytes) -> Path:
    path = _file()
    path.write_bytes(data)
    return path


@cache
def storage_seeds() -> list[bytes]:
    """What the storage hook sends."""
    hello = write_record("hello", 0.0, "lmcache_storage", "inside", 0, 1, 64, "fs", {})
    told = [
        write_record("read", ["r"], b"\0" * 7 + b"\1", 64, 1000, 1.5, 1.75),
        write_record("read", ["r", "s"], b"\0" * 7 + b"\2", 64, None, 1.5, 1.75),
        write_record("write", b"\0" * 7 + b"\3", 1000, 1.5, 1.75),
        write_record("write", b"\0" * 7 + b"\3", None, 1.5, 1.75),
        write_record("stats", 2.0, 0, 0, 0, 0, 0, 3, 0, 0, 0),
        write_record("stats", 3.0, 2, 0, 0, 0, 0, 5, 0, 0, 0),
    ]
    return [
        msgspec.msgpack.encode([hello, *records])
        for count in (1, 2, 3)
        for records in itertools.permutations(told, count)
    ]


@cache
def pool_file_seeds() -> list[bytes]:
    """Names of every format, and a model's configuration."""
    listing = (FIXTURES / "captures/lmcache/inproc_fs/l2_dir_listing.txt").read_bytes().splitlines()
    names = [
        b"m@0x01000100@0@00ff00ff.data", b"m@0x01000100@0@00ff00ff@salt.data.tmp", b"m@1@0@-1f2e@half.data",
        b"m@1@0@1f2e@half@3@tag%value.data", b"vllm@m@1@0@1f2e.data", b"m@1@0@1f2e@half.pt", b"locks/x",
        b"m_0123456789ab_r0/012/34_g0/0123456789abcdef.bin", b"m_0123456789ab/config.json", b"a/b.tmp",
        b"m_0123456789ab_r0/012/34_g0/0123456789abcdef.bin.x.tmp", b"lost+found", b"\xff/\xfe.data",
    ]  # fmt: skip
    config = json.dumps({"model_name": "org/model", "layers": [[1, {"a": None}]]}).encode()
    return [*names, *listing[:100], b"\n".join(names), config, config + b"\nm_0123456789ab/config.json"]


@cache
def frame_seeds() -> list[bytes]:
    """Messages live and replayed, the end of a replay, a question."""
    told = (
        [b"kv", pack_sequence(7), b"payload"], [b"", b"kv", pack_sequence(7), b"payload"],
        [b"", b"\xff" * 8, b""], [b"peer", b"", pack_sequence(7)],
    )  # fmt: skip
    return [b"|" + b"|".join(one) for one in told]


@cache
def page_state_seeds() -> list[bytes]:
    """Files as they are written."""
    place = {"vllm_events:serving/chat/pod-0/0": [7, NOW, ["r"]]}
    kept = [{"exporter": "exporter", "streams": streams, "version": 1} for streams in ({}, place)]
    return [*(json.dumps(one).encode() for one in kept), b"{}", b""]


@cache
def trace_seeds() -> list[bytes]:
    """A few requests in each format, plain and compressed."""
    mooncake = b"".join(
        json.dumps(
            {"timestamp": at, "input_length": 1024 + at, "output_length": 3, "hash_ids": [0, 1, at + 2]}
        ).encode() + b"\n"
        for at in range(1, 5)
    )  # fmt: skip
    line = {"timestamp": NOW, "chunk_size": 64, "seq_len": 130, "chunk_hashes": ["0x1f", "0x2e"]}
    server = json.dumps(line).encode() + b"\n" + json.dumps({**line, "timestamp": NOW + 1}).encode() + b"\n"
    inside = json.dumps({"timestamp": NOW, "lookup_id": "x", "chunk_hashes": ["0x1f"]}).encode() + b"\n"
    conversations = (FIXTURES / "traces/conversations.jsonl").read_bytes().splitlines(keepends=True)
    plain = [mooncake, server, inside, b"".join(conversations[:5])]
    return [*plain, *(gzip.compress(one, mtime=0) for one in plain)]


@cache
def settings_seeds() -> list[bytes]:
    """The documentation's example by its parts: the whole takes YAML too long to be read often."""
    text = (ROOT / "docs" / "settings-example.yaml").read_bytes()
    parts, part = [], b""
    for line in text.splitlines(keepends=True):
        if not line.startswith((b" ", b"#", b"\n")) and part:
            parts.append(part)
            part = b""
        part += line
    more = (b"exporter: {pods: {}}\n", b"collector: {advise_window_bytes: 512 MiB}\n", b"a: &a [*a]\n", b"")
    return [*parts, part, *more]
