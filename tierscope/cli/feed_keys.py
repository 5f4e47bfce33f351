"""`tierscope feed-keys`: the keys of an encrypted feed, as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tierscope.domain.errors import TierscopeError

EXPORTER_KEY, EXPORTER_PUBLIC = "exporter.key", "exporter.pub"
COLLECTOR_KEY, READERS = "collector.key", "readers"
"""`exporter.feed_keys` takes exporter.key and readers, `collector.feed_keys` the two others."""


def feed_keys(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files to; none of them may be there.")],
) -> None:
    """Make the keys of an encrypted feed: exporter.key, exporter.pub, collector.key and readers."""
    import zmq

    from tierscope.cli.output import stderr

    (exporter_public, exporter), (collector_public, collector) = zmq.curve_keypair(), zmq.curve_keypair()
    texts = {
        EXPORTER_KEY: exporter,
        EXPORTER_PUBLIC: exporter_public,
        COLLECTOR_KEY: collector,
        READERS: b"collector " + collector_public,
    }
    if found := [name for name in texts if (folder / name).exists()]:
        raise TierscopeError(
            f"there is a {found[0]} already",
            where=str(folder),
            fix="name another folder, or move the old keys away",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write(folder / name, text.decode() + "\n")
        stderr.print(folder / name, markup=False)


def _write(path: Path, text: str) -> None:
    """A new file that its owner alone may read."""
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
