"""Every command that a page of ours shows, and what becomes of it in the tests.

A command is a line of a fenced `sh` block, or an indented line that begins with one of `PROGRAMS`. Each is
executed by tests/integration/test_documented_commands.py, run by CI itself, or named in
documented_commands.yaml with what it wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("tierscope ", "python ", "make ", "pip ", "kubectl ", "helm ", "lmcache ", "TIERSCOPE_", "~/")
COMMENT = re.compile(r"\s+#\s.*$")
CHANGES_NOTHING = ("CHANGELOG.md", "docs/decisions/", "docs/reference/")
"""Pages that tell of commands, and show none to type."""

_LISTED = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
EXECUTED: list[str] = _LISTED["executed"]
"""In this order, in one folder."""
CI: list[str] = _LISTED["ci"]
"""What CI's own script runs."""
WANTS: dict[str, list[str]] = _LISTED["wants"]
"""What is not executed here, by what it wants."""

TESTS = re.compile(r"^(TIERSCOPE_\w+=\S+ )*(python -m pytest|make (long|engines|test))\b")
"""A command that runs tests: those are what it executes, and they must be there."""


def documented() -> Iterator[tuple[Path, str]]:
    """Every command of every page, as it would be typed, without its comment."""
    for page in sorted(ROOT.rglob("*.md")):
        name = page.relative_to(ROOT).as_posix()
        if not name.startswith((*CHANGES_NOTHING, ".", "site/", "tests/")):
            for command in _commands(page.read_text("utf-8")):
                yield page, command


def _commands(text: str) -> Iterator[str]:
    for language, block in FENCE.findall(text):
        if language in ("sh", "bash", "console"):
            yield from filter(None, map(_bare, block.replace("\\\n", " ").splitlines()))
    for line in FENCE.sub("", text).splitlines():
        if line.startswith("    ") and line.strip().startswith(PROGRAMS):
            yield _bare(line)


def _bare(line: str) -> str:
    return re.sub(r"\s+", " ", COMMENT.sub("", line)).strip()
