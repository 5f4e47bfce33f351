"""Runs the coverage-guided fuzzer: `python -m tests.fuzz_one TARGET CORPUS [libFuzzer options]`.

It runs in an environment that has `atheris`; see `tests/long/test_fuzz.py`.
"""

from __future__ import annotations

import random
import sys

import atheris

READERS = [
    "exporters",
    "collectors.kube",
    "tierscope.cli.settings_file",
    "tierscope.domain.command_line",
    "tierscope.feed",
    "tierscope.traces",
]
"""What is watched for new coverage."""

with atheris.instrument_imports(include=READERS):
    from tests.fuzzing import TARGETS, another_value


def mutated(data: bytes, most_bytes: int, seed: int) -> bytes:
    """Half of the inputs have another value inside their document, which bits seldom become."""
    if seed % 2:
        changed = another_value(bytes(data), random.Random(seed))
        if changed != data and len(changed) <= most_bytes:
            return changed
    return atheris.Mutate(data, most_bytes)


if __name__ == "__main__":
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target.check, custom_mutator=mutated)
    atheris.Fuzz()
