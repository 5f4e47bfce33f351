"""The command lines of vLLM and of LMCache's server, read as options."""

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


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What vLLM is told that decides the size and place of its caches; None: not told."""

    tensor_parallel: int
    pipeline_parallel: int
    served_name: str | None
    gpu_memory_ratio: float | None
    max_model_len: int | None
    cache_dtype: str | None
    connector: str | None

    @property
    def ranks(self) -> int:
        """GPUs that share one engine's model, each a worker process with a cache of its own."""
        return self.tensor_parallel * self.pipeline_parallel


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


def engine_arguments(words: Iterable[str]) -> EngineArguments:
    """What a vLLM command line says about its caches."""
    options = options_of(words)
    connector = options.document("kv-transfer-config").get("kv_connector")
    dtype = options.text("kv-cache-dtype")
    return EngineArguments(
        tensor_parallel=options.whole("tensor-parallel-size") or 1,
        pipeline_parallel=options.whole("pipeline-parallel-size") or 1,
        served_name=options.text("served-model-name"),
        gpu_memory_ratio=options.number("gpu-memory-utilization"),
        max_model_len=options.whole("max-model-len"),
        cache_dtype=None if dtype == "auto" else dtype,
        connector=connector if isinstance(connector, str) else None,
    )
