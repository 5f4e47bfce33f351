"""The operator example's two files as modules: nothing imports `deploy`, so they are loaded by their path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "deploy" / "operator-example"


def load(name: str) -> ModuleType:
    """`policy` or `controller`, once; the controller finds the policy under its own plain name."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


policy = load("policy")
controller = load("controller")


def advice(**changes) -> dict:
    """A recommendation of one change that a policy may apply, as the API sends it."""
    reason = {"what": "hits stay low", "query": "hits", "comparison": "<", "value": 0.5, "for_seconds": 600.0}
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    change = {
        "id": "tier_size:l1",
        "kind": "tier_size",
        "target": "l1",
        "from": 8 * 2**30,
        "to": 16 * 2**30,
        "unit": "bytes",
        "apply": [{"what": "patch it", "format": "json_patch", "document": operations}],
        "revert_if": [reason],
    }
    whole = {
        "status": "recommend",
        "generated_at": "2026-01-01T00:00:00Z",
        "findings": [],
        "changes": [change],
    }
    return {**whole, **changes}
