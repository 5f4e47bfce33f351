"""The distribution: what it may import, and what it brings along."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ALLOWED = {"msgspec", "zmq", "vllm", "lmcache", "tierscope_probe"}
ENGINE_ONLY = {"vllm": {"connectors", "stat_logger"}, "lmcache": {"storage_connector"}}
"""Modules that may import an engine's package at their top; all others are read and tested without it."""


@pytest.fixture(scope="module")
def source() -> Path:
    return Path(__file__).parents[4] / "exporters" / "probe"


def imports_of(path: Path) -> set[str]:
    """Top-level packages a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(str(node.module))
    return {name.split(".")[0] for name in names}


def test_it_imports_what_an_engine_has_anyway(source):
    """The standard library, msgspec, zmq, vllm and lmcache; nothing of ours, nothing else."""
    foreign = {
        path.name: found
        for path in (source / "tierscope_probe").glob("*.py")
        if (found := imports_of(path) - ALLOWED - sys.stdlib_module_names)
    }

    assert not foreign


def test_engines_are_imported_by_the_modules_that_need_them(source):
    """Everything else works, and is tested, without an engine."""
    for engine, modules in ENGINE_ONLY.items():
        found = {
            path.stem for path in (source / "tierscope_probe").glob("*.py") if engine in imports_of(path)
        }
        assert found == modules


def test_its_wheel_holds_one_package_and_asks_for_nothing(source, tmp_path):
    """Installed beside an engine it changes none of its pins, and vLLM finds its plugin."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(path) as wheel:
        names = {name.split("/")[0] for name in wheel.namelist()}
        (metadata_name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
        metadata = Parser().parsestr(wheel.read(metadata_name).decode())
        (points_name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        points = wheel.read(points_name).decode()

    assert {name for name in names if not name.endswith(".dist-info")} == {"tierscope_probe"}
    assert metadata["Name"] == "tierscope-probe"
    assert metadata.get_all("Requires-Dist") is None
    assert "tierscope_probe.stat_logger:FinishedRequestLogger" in points


def test_our_own_wheel_leaves_it_out(repository):
    """The probe is installed in engines' images, the rest of us is not."""
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))

    assert "exporters/probe" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
