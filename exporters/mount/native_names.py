"""File names of vLLM's own file-system tier. Pure.

A block is `<model>_<digest>_r<rank>/<hhh>/<hh>_g<group>/<hash>.bin`, where the two folders are the hash's
first five digits; while it is written the name goes on with a random suffix and `.tmp`. The file
`<model>_<digest>/config.json` names the model in full. The hash is the one in the engine's KV events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from exporters.mount.chunk_file import ChunkFile, ChunkFormat, low_hash

_RANK_FOLDER = re.compile(r"(?P<model>.+)_(?P<digest>[0-9a-f]{12})_r(?P<rank>[0-9]{1,6})")
_CONFIG_FOLDER = re.compile(r".+_(?P<digest>[0-9a-f]{12})")
_GROUP_FOLDER = re.compile(r"(?P<start>[0-9a-f]{2})_g(?P<group>[0-9]{1,6})")
_BLOCK = re.compile(r"(?P<hash>[0-9a-f]{16,128})\.bin(?P<temporary>.*\.tmp)?")

MOST_CONFIG_BYTES = 1 << 20
"""Largest `config.json` that is read; a real one has a few kilobytes, for it names every layer."""


class _Config(msgspec.Struct):
    model_name: str


def parse_native_name(folders: Sequence[str], name: str) -> ChunkFile | None:
    """Return what a file's name and the folders it lies in say, None when it is not this tier's."""
    block = _BLOCK.fullmatch(name)
    if block is None or len(folders) < 3:
        return None
    rank_folder, start, group_folder = folders[-3:]
    ranked, grouped = _RANK_FOLDER.fullmatch(rank_folder), _GROUP_FOLDER.fullmatch(group_folder)
    if ranked is None or grouped is None or not block["hash"].startswith(start + grouped["start"]):
        return None
    return ChunkFile(
        format=ChunkFormat.VLLM_NATIVE,
        model=ranked["model"],
        chunk_hash=low_hash(block["hash"]),
        rank=int(ranked["rank"]),
        group=int(grouped["group"]),
        layout=ranked["digest"],
        temporary=block["temporary"] is not None,
    )


def config_digest(folders: Sequence[str], name: str) -> str | None:
    """Return the digest whose model a `config.json` names, None when a file is something else."""
    found = _CONFIG_FOLDER.fullmatch(folders[-1]) if name == "config.json" and folders else None
    return None if found is None else found["digest"]


def parse_config(body: bytes) -> str | None:
    """Return the model's name in full, None where the document does not say."""
    try:
        return msgspec.json.decode(body, type=_Config).model_name
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # the last: brackets without end
        return None
