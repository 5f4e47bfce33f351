"""How a size change is applied to a real deployment, what it disturbs, and when to undo it."""

from __future__ import annotations

import math

from pydantic import JsonValue

from tierscope.advice.document import Apply, ApplyFormat, RevertIf
from tierscope.advice.predictions import Estimate
from tierscope.advice.resource import mebibytes, memory_patch, variables_patch
from tierscope.advice.thresholds import REVERT_AFTER_SECONDS
from tierscope.domain.deployment import Deployment
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB, MIB, format_bytes
from tierscope.domain.wiring import CacheScope, Wiring
from tierscope.registry.metrics import REQUEST_TOKENS, TIME_TO_FIRST_TOKEN

L1_VARIABLE = "LMCACHE_MAX_LOCAL_CPU_SIZE"
RE_RENDER = (
    "Every edit of the InferenceEndpointConfig makes the operator render the Deployment anew: an "
    "LMCACHE_REMOTE_URL, volume or mount that was patched into the Deployment by hand is gone afterwards, "
    "and L2 with it, unless a webhook or policy puts it back. Wait for the state DeploymentComplete with "
    "observedGeneration equal to generation, then check that the pods still have LMCACHE_REMOTE_URL."
)
L1_RESTART = "The engine pods restart and start with an empty L0 and L1; hit ratios fall until both are warm."
ROLLOUT = (
    "On nodes whose GPUs are all in use a rolling update waits for a free GPU for ever: keep one spare or "
    "scale to zero first."
)


def apply_size(tier: Tier, deployment: Deployment, from_bytes: float, to_bytes: float) -> tuple[Apply, ...]:
    """The steps that give one holder of a tier (L1 or L2) its new size."""
    if tier is Tier.L2:
        return (_apply_l2(deployment, to_bytes),)
    wiring = deployment.wiring
    if wiring is None:
        return _apply_l1(deployment, from_bytes, to_bytes)
    if wiring.l1_scope is CacheScope.NODE:
        return (_apply_server(to_bytes),)
    return (_patch_l1(deployment, wiring, from_bytes, to_bytes),)


def risks_of(tier: Tier, deployment: Deployment, from_bytes: float, to_bytes: float) -> tuple[str, ...]:
    """What may go wrong when a tier is given its new size."""
    grows = to_bytes > from_bytes
    config = deployment.tier(tier)
    unlimited = grows and (config is None or config.limit_bytes is None)
    if tier is Tier.L1:
        room = (
            "No limit_bytes is configured for L1: check that each node has the memory, or pods are evicted."
        )
        return (L1_RESTART, RE_RENDER, ROLLOUT, *((room,) if unlimited else ()))
    room = "No limit_bytes is configured for L2: check that the disks have the room."
    shrinking = (
        "Curvine accepts a size below what is used: nothing is deleted, and no new block is stored until "
        "usage falls below it. Removing workers loses their blocks unless they are decommissioned first."
    )
    persistence = (
        "A window without restarts does not show what L2 saves when engines restart with L0 and L1 empty."
    )
    changed = (room,) if unlimited else () if grows else (shrinking, persistence)
    return ("The Curvine workers restart one after the other; what they store stays on disk.", *changed)


def revert_if(
    tier: Tier, deployment: Deployment, total: Estimate, p90: Estimate | None
) -> tuple[RevertIf, ...]:
    """Measurable reasons to undo a change: what was promised and does not come."""
    where = f'namespace="{deployment.namespace}",endpoint="{deployment.endpoint}"'
    tokens = REQUEST_TOKENS.name
    served = f'sum(rate({tokens}{{{where},tier!="computed"}}[1h]))'
    ratio = f"{served} / sum(rate({tokens}{{{where}}}[1h]))"
    reasons = [
        RevertIf(
            f"the hit ratio stays below what was predicted for {tier.value.upper()}",
            ratio,
            "<",
            total.low,
            REVERT_AFTER_SECONDS,
        )
    ]
    if p90 is not None:
        buckets = f"sum by (le) (rate({TIME_TO_FIRST_TOKEN.name}_bucket{{{where}}}[1h]))"
        reasons.append(
            RevertIf(
                "TTFT p90 stays above what was predicted",
                f"histogram_quantile(0.9, {buckets})",
                ">",
                p90.high,
                REVERT_AFTER_SECONDS,
            )
        )
    return tuple(reasons)


def _patch_l1(deployment: Deployment, wiring: Wiring, from_bytes: float, to_bytes: float) -> Apply:
    """Size and memory in one edit, since each edit restarts the pods."""
    ranks = deployment.tensor_parallel
    operations = variables_patch(wiring, {L1_VARIABLE: f"{to_bytes / ranks / GIB:.6g}"})
    memory = ""
    if deployment.worker_memory_bytes is not None and wiring.resource_parts:
        asked = deployment.worker_memory_bytes + to_bytes - from_bytes
        operations += memory_patch(wiring, asked)
        memory = f" The container asks for {mebibytes(asked)} with it."
    return Apply(
        f"Patch the {wiring.kind.value} {deployment.endpoint} in namespace {deployment.namespace}: "
        f"{L1_VARIABLE} in what LMCache calls GB and means GiB, "
        f"{_places(deployment, wiring, to_bytes)}.{memory}",
        ApplyFormat.JSON_PATCH,
        operations,
    )


def _places(deployment: Deployment, wiring: Wiring, to_bytes: float) -> str:
    """The size of L1 a rank, a replica and a node: what is set, what it comes to, what must be there."""
    ranks = deployment.tensor_parallel
    has = f" of {format_bytes(wiring.node_memory_bytes)}" if wiring.node_memory_bytes else ""
    return (
        f"{format_bytes(to_bytes / ranks)} for each of {ranks} ranks, {format_bytes(to_bytes)} a replica, "
        f"{format_bytes(to_bytes * wiring.replicas_a_node)} on a node{has} with "
        f"{wiring.replicas_a_node} of them"
    )


def _apply_server(to_bytes: float) -> Apply:
    return Apply(
        "Options of the LMCache server of each node (its DaemonSet): one size for all engines of the node, "
        "in what it calls GB and means GiB. Raise or lower the memory of its container by the same.",
        ApplyFormat.ARGUMENTS,
        {"--l1-size-gb": f"{to_bytes / GIB:.6g}"},
    )


def _apply_l1(deployment: Deployment, from_bytes: float, to_bytes: float) -> tuple[Apply, ...]:
    ranks = deployment.tensor_parallel
    size = to_bytes / ranks
    name = f"InferenceEndpointConfig {deployment.endpoint} in namespace {deployment.namespace}"
    shared = f"; a replica's {ranks} ranks take this much each, {format_bytes(to_bytes)} together"
    variable = Apply(
        f"Set {L1_VARIABLE} in spec.worker.environmentVariables of the {name}, replacing an entry of that "
        f"name. LMCache calls the unit GB and means GiB (1024^3 bytes){shared if ranks > 1 else ''}. It goes "
        "before max_local_cpu_size of a file in kvCacheSpec.cacheConfigFile. A stand-alone LMCache server "
        "takes its size from its own command line.",
        ApplyFormat.ENV,
        {L1_VARIABLE: f"{size / GIB:.6g}"},
    )
    more = to_bytes - from_bytes
    if deployment.worker_memory_bytes is None:
        word = "raise" if more > 0 else "lower"
        note = (
            f" In the same edit {word} spec.worker.resources requests.memory and limits.memory by "
            f"{format_bytes(abs(more))}: the values themselves need worker_memory_bytes of the deployment."
        )
        return (Apply(variable.what + note, variable.format, variable.document),)
    memory = f"{math.ceil((deployment.worker_memory_bytes + more) / MIB)}Mi"
    patch: JsonValue = [
        {"op": "replace", "path": f"/spec/worker/resources/{part}/memory", "value": memory}
        for part in ("requests", "limits")
    ]
    what = f"Give the engine container of the {name} the memory for it, in the same edit: {memory}."
    return variable, Apply(what, ApplyFormat.JSON_PATCH, patch)


def _apply_l2(deployment: Deployment, to_bytes: float) -> Apply:
    workers = deployment.l2_workers or deployment.replicas
    assumed = "" if deployment.l2_workers else " (l2_workers is not configured: one a replica is assumed)"
    pool = deployment.wiring.pool if deployment.wiring else None
    directories = pool.directories if pool else ()
    each = math.ceil(to_bytes / workers / max(len(directories), 1) / MIB)
    size = f"{each // 1024}Gi" if each % 1024 == 0 else f"{each}Mi"
    entries: list[JsonValue] = [{"size": size}]
    if directories:
        entries = [{"mountPath": directory.path, "size": size} for directory in directories]
    return Apply(
        f"Helm values of the Curvine release. The pool is worker.replicas x the sum of "
        f"worker.storage.dataDirs[i].size; this is written for {workers} worker{'' if workers == 1 else 's'}"
        f"{assumed} with "
        f"{len(entries)} data {'directory' if len(entries) == 1 else 'directories'} each. Helm replaces the "
        "list as a whole: keep each entry's name, type, hostPath and mountPath, and set its size. With a PVC "
        "instead of a hostPath the size is immutable: resize the claims by hand first.",
        ApplyFormat.HELM_VALUES,
        {"worker": {"replicas": workers, "storage": {"dataDirs": entries}}},
    )
