"""Virtual environments with real engines: built once from pins, outside the checkout, used by all runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PROBE = REPOSITORY / "exporters" / "probe"

READY = ".tierscope-ready"
PROBE_DIGEST = ".tierscope-probe-digest"
NICE = ("nice", "-n", "10")


def prepared(
    name: str, pins: Path, *, given: str | None = None, base: Path | None = None, probe: bool = True
) -> Path:
    """Return an environment with what `pins` lists and, unless told otherwise, the checkout's probe.

    It is named by its pins, so changed pins are another environment; it is built where it is missing. `given`
    is an environment to use instead. With a `base` it also has what that one has, and leaves it as it is.
    """
    folder = Path(given) if given else cache() / f"{base.name if base else ''}{name}-{digest([pins])}"
    with _locked(cache() / f"{folder.name}.lock"):
        if not given and not (folder / READY).exists():
            _build(folder, pins, base)
        if probe:
            _install_probe(folder)
    return folder


def cache() -> Path:
    """Return the folder that outlives the checkout."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tierscope" / "engines"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(paths: list[Path]) -> str:
    """Return a name for the contents of files and the running Python's version."""
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def distributions(folder: Path) -> set[str]:
    """Return what is installed, one `name==version` each."""
    return set(run(folder / "bin" / "python", "-m", "pip", "freeze", "--all").splitlines())


def build_probe(target: Path) -> Path:
    """Build the probe's wheel into a folder and return its path."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target, folder=PROBE)
    (wheel,) = target.glob("*.whl")
    return wheel


def run(*command: str | Path, folder: Path | None = None) -> str:
    """Run a program and return its output; fails with the end of it when the program does."""
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path, pins: Path, base: Path | None) -> None:
    print(f"building {folder} from {pins.name}; a few minutes", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", folder)
    if base is not None:
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "base.pth").write_text(str(base / packages.relative_to(folder)) + "\n")
    run(*NICE, folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "-r", pins)
    (folder / READY).touch()


def _install_probe(folder: Path) -> None:
    """Install the checkout's probe as a wheel and nothing beside it; done when it changed."""
    wanted = digest([*sorted(PROBE.rglob("*.py")), PROBE / "pyproject.toml"])
    installed = folder / PROBE_DIGEST
    if installed.exists() and installed.read_text() == wanted:
        return
    wheels = cache() / f"probe-{wanted}-{folder.name}"
    wheel = build_probe(wheels)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", wheel)
    shutil.rmtree(wheels)
    installed.write_text(wanted)
