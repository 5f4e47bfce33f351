"""The environments real engines run in: built once, kept outside the checkout, used by every run.

An environment is named by its pins, so changed pins are another environment. Point
TIERSCOPE_VLLM_ENVIRONMENT at a virtual environment to use that one instead.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines.model import write_model

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
PINS = HERE / "vllm-0.32.0.txt"
PROBE = REPOSITORY / "exporters" / "probe"

READY = ".tierscope-ready"
PROBE_DIGEST = ".tierscope-probe-digest"
NICE = ("nice", "-n", "10")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with vLLM and the probe, and the model it serves."""

    folder: Path
    model: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def vllm_environment() -> Environment:
    """Return the vLLM environment, built first where it is missing (about 3 minutes, 3.5 GB)."""
    root = _root()
    root.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("TIERSCOPE_VLLM_ENVIRONMENT")
    folder = Path(given) if given else root / f"vllm-{_digest([PINS])}"
    with _locked(root / f"{folder.name}.lock"):
        if not given and not (folder / READY).exists():
            _build(folder)
        _install_probe(folder, root)
    model = root / f"model-{_digest([HERE / 'model.py'])}"
    write_model(model)
    return Environment(folder, model)


def distributions(environment: Environment) -> set[str]:
    """Return what is installed, one `name==version` each."""
    return set(_run(environment.python, "-m", "pip", "freeze", "--all").splitlines())


def _root() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tierscope" / "engines"


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path) -> None:
    print(f"building {folder} from {PINS.name}; about 3 minutes", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "venv", folder)
    _run(*NICE, folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "-r", PINS)
    (folder / READY).touch()


def _install_probe(folder: Path, root: Path) -> None:
    """Install the checkout's probe as a wheel and nothing beside it; done when it changed."""
    digest = _digest([*sorted(PROBE.rglob("*.py")), PROBE / "pyproject.toml"])
    installed = folder / PROBE_DIGEST
    if installed.exists() and installed.read_text() == digest:
        return
    wheels = root / f"probe-{digest}"
    wheel = build_probe(wheels)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", wheel)
    shutil.rmtree(wheels)
    installed.write_text(digest)


def build_probe(target: Path) -> Path:
    """Build the probe's wheel into a folder and return its path."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target, folder=PROBE)
    (wheel,) = target.glob("*.whl")
    return wheel


def _run(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
