"""The import contract holds, and would break if someone crossed it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

PACKAGES = ("tierscope", "collectors", "exporters", "dashboards", "api")

FORBIDDEN = {
    "a pure room opens a socket": ("tierscope/advice/planted.py", "import zmq\n"),
    "the core reaches up to a process": ("tierscope/storage/planted.py", "import collectors\n"),
    "the testbed uses the analytics it checks": (
        "tierscope/testbed/planted.py",
        "import tierscope.analytics\n",
    ),
    "dashboards read the store": ("dashboards/planted.py", "import tierscope.storage\n"),
    "the report reads the store": ("tierscope/report/planted.py", "import tierscope.storage\n"),
    "one process imports another": ("exporters/planted.py", "import collectors\n"),
    "two doors know each other": ("tierscope/feed/planted.py", "import tierscope.telemetry\n"),
    "a new room was not placed": ("tierscope/attic/__init__.py", '"""A room nobody placed."""\n'),
}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root)},
    )


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A copy of the packages and of the contract, to plant things in."""
    for package in PACKAGES:
        shutil.copytree(
            repository / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(repository / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contract_is_kept(checkout):
    """No import crosses the house's walls."""
    result = lint_imports(checkout)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("case", FORBIDDEN)
def test_a_planted_import_breaks_the_contract(checkout, case):
    """A forbidden import is found; a check that cannot fail would be worth nothing."""
    path, text = FORBIDDEN[case]
    planted = checkout / path
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(text, encoding="utf-8")

    result = lint_imports(checkout)

    assert result.returncode != 0, f"{case}: {result.stdout}"


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_owns_our_name(name):
    """Installing us next to our dependencies shadows nothing."""
    owners = set(packages_distributions().get(name, ())) - {"tierscope"}

    assert not owners, f"{name} is also shipped by {owners}; rename our folder or drop the dependency"
