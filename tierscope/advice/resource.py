"""JSON patches of an endpoint's custom resource, such that a server-side dry run takes them.

Each begins with a test of what it rests on, so that a patch for a resource that has changed since is refused
as a whole instead of hitting the wrong entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.units import MIB
from tierscope.domain.wiring import ResourceKind, Wiring

STRATEGY_PATH = "/spec/intelligentRoutingSpec/routingStrategy"


def variables_patch(wiring: Wiring, values: Mapping[str, str]) -> list[JsonValue]:
    """Set variables of the engine, whether or not it has them."""
    operations: list[JsonValue] = []
    path, length = _variables_path(wiring), len(wiring.environment)
    for name, value in values.items():
        entry: JsonValue = {"name": name, "value": value}
        if name in wiring.environment:
            # Of a name that is there twice the last one counts.
            place = length - 1 - wiring.environment[::-1].index(name)
            operations += [
                {"op": "test", "path": f"{path}/{place}/name", "value": name},
                {"op": "replace", "path": f"{path}/{place}", "value": entry},
            ]
        elif length or operations:
            operations.append({"op": "add", "path": f"{path}/-", "value": entry})
        else:
            operations.append({"op": "add", "path": path, "value": [entry]})
    return operations


def memory_patch(wiring: Wiring, memory_bytes: float) -> list[JsonValue]:
    """Ask for so much memory for the engine's container, in whichever parts the resource has."""
    return [
        # "add" to an object sets a member, whether or not it is there.
        {"op": "add", "path": f"/spec/worker/resources/{part}/memory", "value": mebibytes(memory_bytes)}
        for part in wiring.resource_parts
    ]


def strategy_patch(deployment: Deployment, to: RoutingPolicy) -> list[JsonValue]:
    """Choose another strategy for the router that is there."""
    return [
        {"op": "test", "path": STRATEGY_PATH, "value": deployment.routing.value},
        {"op": "replace", "path": STRATEGY_PATH, "value": to.value},
    ]


def switch_l2_patch(*, on: bool) -> list[JsonValue]:
    """Switch L2 on or off; the resource must have a `kvCacheSpec`."""
    return [{"op": "add", "path": "/spec/kvCacheSpec/enableL2Cache", "value": on}]


def weights_patch(wiring: Wiring, weights: Mapping[str, float]) -> list[JsonValue]:
    """Set weights of the gateway's scheduler for the endpoint's model; empty without a gateway."""
    if wiring.gateway is None:
        return []
    path = f"/spec/schedulers/{wiring.gateway.position}/weights"
    if not wiring.gateway.weights:
        return [{"op": "add", "path": path, "value": dict(weights)}]
    return list(_weights(path, weights))


def mebibytes(size_bytes: float) -> str:
    """A size as a Kubernetes quantity, rounded up.

    >>> mebibytes(1.5 * 2**20)
    '2Mi'
    """
    return f"{math.ceil(size_bytes / MIB)}Mi"


def _weights(path: str, weights: Mapping[str, float]) -> Iterator[JsonValue]:
    for name, weight in weights.items():
        yield {"op": "add", "path": f"{path}/{name}", "value": weight}


def _variables_path(wiring: Wiring) -> str:
    inside = "/worker" if wiring.kind is ResourceKind.INFERENCE_ENDPOINT_CONFIG else ""
    return f"/spec{inside}/environmentVariables"
