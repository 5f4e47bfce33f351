"""Mutated frames, pages and documents by the hundred thousand, and a fuzzer led by what it has covered."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.fuzzing import TARGETS, mutations
from tests.long_sample import SAMPLED

pytestmark = pytest.mark.long

MUTATIONS = 2_500 if SAMPLED else 25_000
"""A reader and seed."""
RUNS = 2_000 if SAMPLED else 50_000
"""Inputs of the coverage-guided fuzzer, a reader."""
ATHERIS = "atheris>=3,<4"
OF_ITS_OWN = ("sh", "-c", '"$@"; exit $?', "sh")
"""Starts a command as a shell's child: the peak memory that the fuzzer limits is else that of these tests."""


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("seed", range(1 if SAMPLED else 4))
def test_mutated_bytes_crash_no_reader(name, seed):
    """Refused by name or read in part, with a count of the rest."""
    target = TARGETS[name]

    for data in mutations(target.seeds(), MUTATIONS // target.slow, random.Random(f"{name} {seed}")):
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"{name}, seed {seed}: {data!r}")
            raise


@pytest.fixture(scope="session")
def fuzzer(tmp_path_factory):
    """A Python with the fuzzer, in an environment of its own, that sees our packages and our libraries."""
    folder = tmp_path_factory.mktemp("fuzzer")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", ATHERIS]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"{ATHERIS} cannot be installed here: {installed.stderr.strip()[-300:]}")
    return python


@pytest.mark.parametrize("name", TARGETS)
def test_a_coverage_guided_fuzzer_crashes_no_reader(name, fuzzer, repository, tmp_path):
    """Inputs that reach new code are kept and mutated on; a crash names its input."""
    corpus, runs = tmp_path / "corpus", RUNS // TARGETS[name].slow
    corpus.mkdir()
    for number, seed in enumerate(TARGETS[name].seeds()[:500]):
        (corpus / str(number)).write_bytes(seed)
    libraries = sysconfig.get_paths()
    paths = [
        str(repository),
        str(repository / "exporters" / "probe"),
        libraries["purelib"],
        libraries["platlib"],
    ]

    command = (str(fuzzer), "-m", "tests.fuzz_one", name, str(corpus))
    run = subprocess.run(
        [*OF_ITS_OWN, *command, f"-runs={runs}", "-seed=1", "-timeout=20"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
        capture_output=True,
        text=True,
        check=False,
    )

    crashes = [path.read_bytes() for path in Path(tmp_path).glob("crash-*")]
    assert run.returncode == 0, (crashes, run.stdout[-2000:], run.stderr[-2000:])
    assert f"Done {runs}" in run.stderr
