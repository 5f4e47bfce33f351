"""How a size change is applied to a real deployment, what it disturbs, and when to undo it."""

from __future__ import annotations

import math

from pydantic import JsonValue

from tierscope.advice.document import Apply, ApplyFormat, Estimate, RevertIf
from tierscope.advice.thresholds import REVERT_AFTER_SECONDS
from tierscope.domain.deployment import Deployment
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB, MIB, format_bytes
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
    if tier is Tier.L1:
        return _apply_l1(deployment, from_bytes, to_bytes)
    return (_apply_l2(deployment, to_bytes),)


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


def _apply_l1(deployment: Deployment, from_bytes: float, to_bytes: float) -> tuple[Apply, ...]:
    ranks = deployment.tensor_parallel
    size = to_bytes / ranks
    name = f"InferenceEndpointConfig {deployment.endpoint} in namespace {deployment.namespace}"
    shared = f"; a replica's {ranks} ranks take this much each, {format_bytes(to_bytes)} together"
    variable = Apply(
        f"Set {L1_VARIABLE} in spec.worker.environmentVariables of the {name}, replacing an entry of that "
        f"name. LMCache calls the unit GB and means GiB (1024^3 bytes){shared if ranks > 1 else ''}. A "
        "file in kvCacheSpec.cacheConfigFile goes before it: set max_local_cpu_size there instead. A "
        "stand-alone LMCache server takes its size from its own command line.",
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
    mebibytes = math.ceil(to_bytes / workers / MIB)
    size = f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"
    return Apply(
        f"Helm values of the Curvine release. The pool is worker.replicas x the sum of "
        f"worker.storage.dataDirs[i].size; this is written for {workers} workers{assumed} with one data "
        "directory each. Helm replaces the list as a whole: keep your entry's name, type, hostPath and "
        "mountPath, and set its size. With a PVC instead of a hostPath the size is immutable: resize the "
        "claims by hand first.",
        ApplyFormat.HELM_VALUES,
        {"worker": {"replicas": workers, "storage": {"dataDirs": [{"size": size}]}}},
    )
