"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("tierscope", "collectors", "exporters", "dashboards", "api")
MOST_LINES = 400


def tracked_files(repository: Path) -> list[Path]:
    """Every file of the checkout, whether or not it is committed yet; none that git ignores."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    return [repository / name for name in names if name and (repository / name).is_file()]


@pytest.fixture(scope="module")
def python_files() -> list[Path]:
    root = Path(__file__).parents[2]
    return [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]


def test_no_file_is_crowded(python_files):
    """A file of more than 400 lines answers more than one question."""
    crowded = {
        str(path): n for path in python_files if (n := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }

    assert not crowded


def constants(module: ast.Module) -> Iterator[str]:
    """Names in capitals that a module gives a value, once for each time."""
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (one.id for one in targets if isinstance(one, ast.Name) and one.id.isupper())


def test_a_constant_has_one_value(python_files):
    """The second would hold for all who meant the first."""
    again = {
        str(path): names
        for path in python_files
        if (
            names := [
                n for n, times in Counter(constants(ast.parse(path.read_text("utf-8")))).items() if times > 1
            ]
        )
    }

    assert not again


def test_metric_names_are_spelled_in_the_registry_alone(python_files):
    """A metric's name in quotes outside the registry would drift from its row."""
    quoted = re.compile(r"""["']tierscope_[a-z_0-9]+["']""")
    found = {
        f"{path}:{number}": line.strip()
        for path in python_files
        if "registry" not in path.parts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if quoted.search(line)
    }

    assert not found


def test_the_lock_names_no_host(repository):
    """The lock can be installed from any index, because it names none."""
    lock = (repository / "requirements.lock").read_text("utf-8")

    assert "://" not in lock
    assert "--hash=sha256:" in lock


def test_the_lock_pins_what_must_be_pinned(repository):
    """DuckDB's extensions fit one version only; unpinned, the dashboard SDK is its oldest line."""
    lock = (repository / "requirements.lock").read_text("utf-8")

    assert re.search(r"^duckdb==1\.5\.5 ", lock, re.MULTILINE)
    assert re.search(r"^grafana-foundation-sdk==0\.0\.21 ", lock, re.MULTILINE)


def test_no_file_names_a_machine(repository):
    """Nothing that is checked in points at one machine's folders."""
    machine_path = re.compile(r"(?<![\w.$}])/(?:root|work|home/[a-z]+)/")
    binary = {".parquet", ".gz", ".msgpack", ".png"}
    found = [
        f"{path.relative_to(repository)}: {match.group()}"
        for path in tracked_files(repository)
        if path.suffix not in binary and path != Path(__file__)
        if (match := machine_path.search(path.read_text("utf-8", errors="replace")))
    ]

    assert not found


def test_ci_runs_what_the_makefile_offers(repository):
    """Each step of CI is a target a newcomer can run, and CI counts a skip as a failure."""
    ci = (repository / ".ci" / "run").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text("utf-8"), re.MULTILINE))

    steps = re.findall(r"\b(?:make|suite) ([a-z-]+)", ci)

    assert set(steps) >= {"system", "check", "engines"}
    assert set(steps) <= targets
    assert "TIERSCOPE_FAIL_ON_SKIP=1" in ci


def test_packages_that_a_skip_names_are_those_that_make_system_installs(repository):
    """Whoever does as a skip says runs the test next time, and so does CI."""
    makefile = (repository / "Makefile").read_text("utf-8")
    [installed] = re.findall(r"apt-get install .*?--no-install-recommends (.*)", makefile)
    named = {
        package
        for path in (repository / "tests").rglob("*.py")
        if path.parent.name != "contract"
        for package in re.findall(
            r"\(package ([a-z0-9+-]+)\)|package=\"([a-z0-9+-]+)\"", path.read_text("utf-8")
        )
    }
    wanted = {name for names in named for name in names if name}

    assert {"prometheus", "postgresql"} <= wanted
    assert wanted <= set(installed.split())
