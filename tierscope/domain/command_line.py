"""Command lines of the engines and caches we watch, read as options. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
SHORT = {"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size"}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a command line by name, `_` and `-` being one; a switch's value is the empty text."""

    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """An option's value; None where it is not given."""
        return self.values.get(name)

    def whole(self, name: str) -> int | None:
        """An option as a whole number; None where it is not given or is none."""
        number = self.number(name)
        return int(number) if number is not None and number.is_integer() else None

    def number(self, name: str) -> float | None:
        """An option as a number; None where it is not given or is none."""
        try:
            return float(self.values[name])
        except (KeyError, ValueError):
            return None

    def document(self, name: str) -> Mapping[str, object]:
        """An option that is a JSON object; empty where it is not given or is none."""
        try:
            found = json.loads(self.values.get(name, "{}"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def options_of(words: Iterable[str]) -> Options:
    """Read `--name value`, `--name=value` and `--switch`; words that belong to no option are passed over.

    >>> options_of(["serve", "--max_model_len=16384", "-tp", "4", "--enforce-eager"]).values
    {'max-model-len': '16384', 'tensor-parallel-size': '4', 'enforce-eager': ''}
    """
    values: dict[str, str] = {}
    waiting: str | None = None
    for word in words:
        if word in SHORT or (word.startswith("--") and len(word) > 2):
            name, has_value, value = SHORT.get(word, word[2:]).partition("=")
            name = name.replace("_", "-")
            values[name] = value
            waiting = None if has_value else name
        elif waiting is not None:
            values[waiting], waiting = word, None
    return Options(values)


def words_of(command: Sequence[str], args: Sequence[str]) -> list[str]:
    """A container's command line as words; what a shell is given is split as the shell would."""
    words = [*command, *args]
    if len(words) >= 3 and words[0] in SHELLS and words[1] in {"-c", "-lc", "-ec"}:
        try:
            return shlex.split(words[2], comments=True)
        except ValueError:  # a quotation without end: the shell would refuse it, too
            return words
    return words
