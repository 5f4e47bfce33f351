"""The steps of the image recipes, run in a folder that stands for the image, without a container engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.manifests import ROOT

pytestmark = pytest.mark.long
IMAGES = ROOT / "deploy" / "images"


class Folder:
    """A folder as the root of an image: absolute paths of a step are paths below it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.at = root
        for name in ("opt", "src", "tmp"):
            (root / name).mkdir(exist_ok=True)

    def here(self, text: str) -> str:
        """A step, or a path, with this folder before every absolute path of the image."""
        return re.sub(
            r"(^|[\s=])(/(?:opt|src|tmp)\b)", lambda found: f"{found[1]}{self.root}{found[2]}", text
        )

    def copy(self, words: list[str]) -> None:
        *sources, target = words
        into = Path(self.here(target)) if target.startswith("/") else self.at / target
        if sources[0].startswith("--from="):
            # A stage that hands on what it made where it made it: here there is one folder for all stages.
            if Path(self.here(sources[1])) != into:
                shutil.copytree(self.here(sources[1]), into, dirs_exist_ok=True)
            return
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                skip = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, into, ignore=skip, dirs_exist_ok=True)
            else:
                shutil.copy(source, into / source.name)

    def run(self, step: str, environment: dict[str, str]) -> None:
        # `python` of the image is the one that runs the tests.
        shell = ["bash", "-ec", self.here(step)]
        done = subprocess.run(
            shell, cwd=self.at, env=environment, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"

    def follow(self, recipe: Path, **variables: str) -> None:
        """Carry out every COPY and RUN of a recipe, in order."""
        path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PIP_NO_CACHE_DIR": "", **variables}
        for line in recipe.read_text("utf-8").splitlines():
            word, _, rest = line.partition(" ")
            if word == "WORKDIR":
                self.at = Path(self.here(rest))
            elif word == "COPY":
                self.copy(shlex.split(rest))
            elif word == "RUN":
                self.run(self.unmounted(rest), environment)

    @staticmethod
    def unmounted(step: str) -> str:
        """A step without its mounts: they are of secrets, and here there are none."""
        while step.startswith("--mount=type=secret,"):
            step = step.partition(" ")[2]
        return step


def size_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def test_tierscope_is_built_from_the_lock_and_starts(tmp_path):
    """Everything from the lock by its hash, the wheel from the sources; then the command works."""
    image = Folder(tmp_path)
    image.follow(IMAGES / "tierscope.Containerfile", PYTHONPATH="")
    tierscope = tmp_path / "opt/tierscope/bin/tierscope"

    done = subprocess.run([tierscope, "--help"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "export" in done.stdout
    assert '"name": "duckdb"' in (tmp_path / "opt/tierscope/packages.json").read_text("utf-8")
    assert not list((tmp_path / "opt/tierscope").rglob("site-packages/pip"))
    print(f"/opt/tierscope: {size_bytes(tmp_path / 'opt/tierscope') / 1e6:.0f} MB")
    print(f"wheel: {sum(size.stat().st_size for size in (tmp_path / 'src/dist').glob('*.whl')) / 1e3:.0f} kB")


def test_the_probe_is_added_without_anything_else(tmp_path):
    """An engine's image has what the probe imports; nothing is downloaded into it."""
    image = Folder(tmp_path)
    engine = tmp_path / "engine"
    subprocess.run(["python3", "-m", "venv", engine], check=True)
    path = f"{engine}/bin:{os.environ['PATH']}"
    image.follow(IMAGES / "probe.Containerfile", PATH=path, PYTHONPATH=sysconfig.get_path("purelib"))

    added = list(engine.glob("lib/python*/site-packages/tierscope_probe*"))
    assert sorted(one.name.split("-")[0] for one in added) == ["tierscope_probe", "tierscope_probe"]
