"""Deployments and models out of files: the same as from the API, without it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from collectors.kube.state import Cluster, cluster_of
from tierscope.domain.errors import BadInput
from tierscope.domain.kv_size import ModelShape, shape_of
from tierscope.domain.settings import ModelSettings

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def cluster_from(paths: Iterable[str | Path]) -> Cluster:
    """Objects of a cluster out of files of `kubectl get -o yaml` (or json); raises `BadInput`."""
    found = Cluster()
    for path in paths:
        one = cluster_of(_documents(Path(path)), str(path))
        merged = {kind: {**found.objects.get(kind, {}), **of_kind} for kind, of_kind in one.objects.items()}
        found = Cluster({**found.objects, **merged})
    return found


def model_shapes(models: Iterable[ModelSettings]) -> dict[str, ModelShape]:
    """The shape of each model's cache by its served name; raises `BadInput`."""
    return {model.name: _shape(Path(model.config_file)) for model in models}


def _documents(path: Path) -> Iterator[object]:
    try:
        text = path.read_bytes()
        # A list first: the last document may be the one that cannot be read.
        yield from list(yaml.load_all(text, Loader=LOADER))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


def _shape(path: Path) -> ModelShape:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    shape = shape_of(document) if isinstance(document, Mapping) else None
    if shape is None:
        raise BadInput(
            "this configuration does not say how large a token's KV values are",
            where=str(path),
            fix="name the model's own config.json: it has num_hidden_layers and torch_dtype",
        )
    return shape


def _unreadable(path: Path, reason: str) -> BadInput:
    return BadInput(f"the file cannot be read: {reason}", where=str(path), fix="check the path and the file")
