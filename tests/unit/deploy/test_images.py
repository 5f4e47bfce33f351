"""Image recipes: pinned, nobody's root, and copying what is there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib

import pytest
import yaml

from tests.manifests import ROOT

IMAGES = ROOT / "deploy" / "images"
RECIPES = sorted(IMAGES.glob("*.Containerfile"))
VERSIONS = json.loads((ROOT / "deploy/versions.json").read_text("utf-8"))
PIN = re.compile(r"^([a-z0-9.-]+)==(\S+)", re.MULTILINE)
recipes = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name.split(".")[0])


def instructions(recipe) -> list[list[str]]:
    lines = [line for line in recipe.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [line.split(maxsplit=1) for line in lines]


def values(recipe, name: str) -> list[str]:
    return [value for word, value in instructions(recipe) if word == name]


@recipes
def test_no_image_is_named_in_a_recipe(recipe):
    """Bases come from versions.json, or from whoever owns the engine; none is `latest`."""
    assert {base.split()[0] for base in values(recipe, "FROM")} <= {"${PYTHON_IMAGE}", "${ENGINE_IMAGE}"}
    assert "latest" not in recipe.read_text("utf-8")
    assert VERSIONS["python_image"]["tag"] != "latest"


@recipes
def test_what_is_copied_is_there_and_not_ignored(recipe):
    """A COPY of a folder that moved fails here and not in somebody's build."""
    ignored = (recipe.parent / f"{recipe.name}.dockerignore").read_text("utf-8").splitlines()
    for line in values(recipe, "COPY"):
        *sources, _ = shlex.split(line)
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert (ROOT / source).exists()
            assert any(
                source == rule[1:] or source.startswith(f"{rule[1:]}/") or rule[1:] == "deploy/images/*.lock"
                for rule in ignored
                if rule.startswith("!")
            )


def test_tierscope_runs_as_nobody_in_particular():
    """Last of all, and not as root."""
    [user] = values(IMAGES / "tierscope.Containerfile", "USER")

    assert user == "65532:65532"


def test_the_engines_image_is_left_as_it_was():
    """Root only for the time of the installation."""
    assert values(IMAGES / "probe.Containerfile", "USER") == ["root", "${ENGINE_USER}"]


@recipes
def test_everything_from_an_index_is_checked_by_its_hash(recipe):
    """What is not, is not from an index."""
    installs = [line for line in values(recipe, "RUN") if re.search(r"pip install\b", line)]

    assert installs
    assert all("--require-hashes -r " in line or "--no-index" in line for line in installs)


@pytest.mark.parametrize("lock", ["runtime.lock", "build.lock"])
def test_the_locks_are_parts_of_the_one_that_is_tested(lock):
    """Versions and hashes: what is in the image is what the tests ran with."""
    part, whole = (IMAGES / lock).read_text("utf-8"), (ROOT / "requirements.lock").read_text("utf-8")

    assert set(PIN.findall(part)) <= set(PIN.findall(whole))
    assert set(re.findall(r"sha256:\w+", part)) <= set(re.findall(r"sha256:\w+", whole))
    assert "://" not in part


def test_one_version_is_written_everywhere():
    """Of the distribution, of the chart, and of what it installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy/helm/tierscope/Chart.yaml").read_text("utf-8"))

    assert project == chart["version"] == chart["appVersion"] == VERSIONS["tierscope"]
