"""Files that are made from a table: whether they are fresh, and writing them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tierscope.domain.errors import TierscopeError


class StaleFiles(TierscopeError):
    """Generated files that are not what their tables say."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A checked-in file that no one edits: its path under the checkout, and what makes its text."""

    path: str
    render: Callable[[], str]


def stale(files: Iterable[Generated], root: Path) -> list[str]:
    """Paths whose text under `root` is missing or differs from what is rendered now."""
    return [file.path for file in files if _text(root / file.path) != file.render()]


def write(files: Iterable[Generated], root: Path) -> list[str]:
    """Write under `root` what is missing or differs; returns the paths written."""
    written = []
    for file in files:
        text, path = file.render(), root / file.path
        if _text(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            written.append(file.path)
    return written


def refuse_stale(files: Iterable[Generated], root: Path, *, fix: str) -> None:
    """Raise `StaleFiles` naming every file that is not fresh."""
    paths = stale(files, root)
    if paths:
        raise StaleFiles(f"{len(paths)} generated file(s) are stale", where=", ".join(paths), fix=fix)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
