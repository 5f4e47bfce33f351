"""What is deployed, as helm and kubectl render it: each rendering is made once a test run."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
CHART = ROOT / "deploy" / "helm" / "tierscope"
OVERLAYS = {"file-store": None, "hyperpod": "hyperpod.yaml", "lake": "lake.yaml", "plain": "plain.yaml"}
"""Every overlay, and the values file that says the same."""
POD_KINDS = ("DaemonSet", "StatefulSet", "Deployment")


def tool(name: str) -> str:
    """Path of helm or kubectl; skips where they were not fetched."""
    folder = Path(os.environ.get("TIERSCOPE_HELM_CACHE", Path.home() / ".cache" / "tierscope" / "helm"))
    path = folder / name
    if not path.exists():
        pytest.skip(f"there is no {name}; `make helm` fetches it")
    return str(path)


def run(*command: object, env: dict[str, str] | None = None) -> str:
    """What a command prints; its own words where it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False,
        env=None if env is None else {**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def objects(text: str) -> list[dict]:
    """The objects of a rendering, without empty documents."""
    return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]


@cache
def by_helm(overlay: str) -> list[dict]:
    """What `helm install` would apply with the values of an overlay."""
    values = OVERLAYS[overlay]
    options = () if values is None else ("--values", f"deploy/helm/values/{values}")
    return objects(run(tool("helm"), "template", "tierscope", CHART, "--namespace", "tierscope", *options))


@cache
def by_kustomize(overlay: str) -> list[dict]:
    """What `kubectl apply -k` would apply."""
    return objects(run(tool("kubectl"), "kustomize", f"deploy/kustomize/overlays/{overlay}"))


def of_kind(found: list[dict], *kinds: str) -> list[dict]:
    """The objects of some kinds."""
    return [one for one in found if one["kind"] in kinds]


def settings_texts(found: list[dict]) -> list[str]:
    """Every settings file in the ConfigMaps."""
    maps = of_kind(found, "ConfigMap")
    return [one["data"]["tierscope.yaml"] for one in maps if "tierscope.yaml" in one["data"]]
