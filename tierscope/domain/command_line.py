"""Command lines of the engines and caches we watch, read as options. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
LARGEST = 2.0**53
"""No option counts further: a larger number is a slip, and no whole number beyond it is exact."""
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
        return number_of(self.values.get(name))

    def document(self, name: str) -> Mapping[str, object]:
        """An option that is a JSON object; empty where it is not given or is none."""
        return document_of(self.values.get(name))


def number_of(text: str | None) -> float | None:
    """A text as a number that can be meant; None for none, for what is no number, and for infinite ones.

    >>> number_of("0.5"), number_of("nan"), number_of("1e999"), number_of(None)
    (0.5, None, None, None)
    """
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and abs(number) <= LARGEST else None


def document_of(text: str | None) -> Mapping[str, object]:
    """A text that is a JSON object; empty for none and for anything else."""
    try:
        found = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError):  # the second: brackets without end
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
