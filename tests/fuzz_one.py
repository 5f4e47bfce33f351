"""Runs the coverage-guided fuzzer: `python -m tests.fuzz_one TARGET CORPUS [libFuzzer options]`.

It runs in an environment that has `atheris`; see `tests/long/test_fuzz.py`.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["exporters", "tierscope.feed"]):
    from tests.fuzzing import TARGETS

if __name__ == "__main__":
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target.check)
    atheris.Fuzz()
