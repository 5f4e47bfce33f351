"""What the last scan found, kept in a file, so that the next process sees what changed meanwhile."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from exporters.mount.chunks import CHUNK, ChunkArray
from tierscope.domain.errors import BadInput

VERSION = 1


class About(msgspec.Struct, frozen=True):
    """Which pool a state is of, and what its numbers rest on.

    `key_check` is the hash of a fixed word by the key that salts are hashed with; it matters when any
    chunk was `salted`. `models` are those of the chunks' numbers from 1 on: name, digest, full name.
    """

    version: int
    pool: str
    path: str
    at_unix_seconds: float
    key_check: int
    salted: bool
    models: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class State:
    """The chunks as of the end of a scan."""

    about: About
    chunks: ChunkArray


def save_state(file: Path, state: State) -> None:
    """Write a state in place of the one before, whole or not at all; raises `OSError`."""
    body = io.BytesIO()
    about = np.frombuffer(msgspec.json.encode(state.about), dtype=np.uint8)
    np.savez(body, about=about, chunks=state.chunks)
    being_written = file.with_name(file.name + ".tmp")
    being_written.write_bytes(body.getbuffer())
    being_written.replace(file)


def load_state(file: Path, *, pool: str, path: str, key_check: int) -> State | None:
    """Return the state in a file, None when there is no file.

    Raises `BadInput` for one that cannot be read or belongs to something else.
    """
    try:
        with file.open("rb") as body, np.load(body, allow_pickle=False) as arrays:
            about = msgspec.json.decode(arrays["about"].tobytes(), type=About)
            chunks = arrays["chunks"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, msgspec.MsgspecError) as error:
        raise _refused(f"it cannot be read: {error}", file) from error
    if about.version != VERSION or chunks.dtype != CHUNK:
        raise _refused(f"it is of another release (version {about.version})", file)
    if (about.pool, about.path) != (pool, path):
        raise _refused(f"it is of the pool '{about.pool}' at {about.path}", file)
    if about.salted and about.key_check != key_check:
        raise _refused("its cache salts were hashed with another key", file)
    return State(about, chunks)


def _refused(reason: str, file: Path) -> BadInput:
    return BadInput(
        f"the state of the last scan is not used: {reason}",
        where=str(file),
        fix="nothing is needed, the next scan begins anew; for salted chunks set exporter.hash_key_file, "
        "and give each pool a state file of its own",
    )
