"""What a walk through a pool's directory could not read, so that nobody takes it for gone. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporters.mount.recognise import branch_of

MOST_NAMED = 5
"""Examples kept for people."""


@dataclass(slots=True)
class Unread:
    """What a walk could not read: folders (a few by name), and single files that could not be looked at."""

    folders: int = 0
    files: int = 0
    branches: set[int] = field(default_factory=set)
    examples: list[str] = field(default_factory=list)

    def note_folder(self, folders: tuple[str, ...], error: OSError) -> None:
        """Count a folder: nothing below it is known this time."""
        self.folders += 1
        self.branches.add(branch_of(folders))
        self._name("/".join(folders), error)

    def note_file(self, folders: tuple[str, ...], error: OSError) -> None:
        """Count a file; it is met again in the next walk."""
        self.files += 1
        self._name("/".join((*folders, "…")), error)

    def _name(self, path: str, error: OSError) -> None:
        if len(self.examples) < MOST_NAMED:
            self.examples.append(f"{ascii(path)[1:-1]}: {error.strerror or error}")
