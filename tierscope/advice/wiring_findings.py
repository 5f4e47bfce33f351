"""What is wrong with how an endpoint is wired up, seen from its configuration alone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from tierscope.advice.document import Apply, ApplyFormat, Finding, FindingKind
from tierscope.advice.resource import strategy_patch, variables_patch
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes
from tierscope.domain.wiring import CacheScope, Wiring

RANDOM_SEED = "random"
SEED_VARIABLE = "PYTHONHASHSEED"
COMPLETIONS = "completions"
CHAT = "chat/completions"


def wiring_findings(deployment: Deployment) -> Iterator[Finding]:
    """Yield every fault of the wiring; nothing where the wiring is not known."""
    wiring = deployment.wiring
    if wiring is None:
        return
    yield from _overcommitted(deployment, wiring)
    yield from _seeds(deployment, wiring)
    yield from _unwired(deployment, wiring)
    yield from _lifetime(wiring)
    yield from _routing(deployment, wiring)


def sees_prompts(wiring: Wiring) -> bool:
    """Whether a `kvaware` router can look prompts up: only on the completions path, which is no chat."""
    path = (wiring.invocation_path or "").strip("/")
    return path.endswith(COMPLETIONS) and not path.endswith(CHAT)


def _overcommitted(deployment: Deployment, wiring: Wiring) -> Iterator[Finding]:
    l1 = deployment.tier(Tier.L1)
    if l1 is None or l1.limit_bytes is None or l1.capacity_bytes <= l1.limit_bytes:
        return
    ranks = deployment.tensor_parallel
    each = f"{format_bytes(l1.capacity_bytes / ranks)} for each of {ranks} ranks, " if ranks > 1 else ""
    on_node = l1.capacity_bytes * wiring.replicas_a_node
    has = f" of {format_bytes(wiring.node_memory_bytes)}" if wiring.node_memory_bytes else ""
    most = l1.limit_bytes
    yield Finding(
        FindingKind.L1_OVERCOMMITTED,
        Severity.CRITICAL,
        "L1 may grow beyond the memory of its node",
        f"{each}{format_bytes(l1.capacity_bytes)} a replica, {format_bytes(on_node)} on one node{has}; "
        f"beside everything else there, a replica's L1 has room for {format_bytes(most)}.",
        f"lower the size of L1 to {format_bytes(most / ranks)} a rank, or use nodes with more memory",
    )


def hashes_differ(deployment: Deployment) -> bool:
    """Whether replicas that share an L2 name one block differently: a seed is missing, or not the same."""
    wiring = deployment.wiring
    if wiring is None or wiring.l1_scope is CacheScope.NODE:
        return False
    shared = deployment.tier(Tier.L2) is not None or wiring.l2_url is not None
    return shared and (len(wiring.hash_seeds) > 1 or RANDOM_SEED in wiring.hash_seeds)


def _seeds(deployment: Deployment, wiring: Wiring) -> Iterator[Finding]:
    if not hashes_differ(deployment):
        return
    yield Finding(
        FindingKind.HASH_SEED_MISMATCH,
        Severity.CRITICAL,
        "Replicas name the same block differently, so none finds what another stored",
        f"{SEED_VARIABLE} of the running pods: {', '.join(wiring.hash_seeds)}.",
        f"set {SEED_VARIABLE}=0 on every replica; what L2 holds now is found by nobody afterwards",
        (
            _patch(
                f"Give every replica the same {SEED_VARIABLE}.", variables_patch(wiring, {SEED_VARIABLE: "0"})
            ),
        ),
    )


def _unwired(deployment: Deployment, wiring: Wiring) -> Iterator[Finding]:
    if not wiring.l2_is_on or wiring.l2_url is not None:
        return
    yield Finding(
        FindingKind.L2_NOT_WIRED,
        Severity.WARNING,
        "L2 is switched on, but no running pod has its address",
        f"{deployment.namespace}/{deployment.endpoint} has enableL2Cache, its pods no LMCACHE_REMOTE_URL.",
        "the operator renders the Deployment anew at each edit of the resource: put the variable, the volume "
        "and the mount back with a webhook or policy that lasts",
    )


def _lifetime(wiring: Wiring) -> Iterator[Finding]:
    pool = wiring.pool
    if pool is None or wiring.l2_url is None or (pool.ttl_action == "delete" and pool.ttl_seconds):
        return
    says = f"client.ttl_action is {pool.ttl_action or 'not set'}, client.ttl_ms is "
    yield Finding(
        FindingKind.L2_NEVER_EVICTS,
        Severity.WARNING,
        "The pool never makes room: when it is full, new chunks are refused",
        says + (f"{pool.ttl_seconds * 1000:.0f}." if pool.ttl_seconds else "not set."),
        "set client.ttl-action=delete and a finite client.ttl-ms in a new StorageClass: only files written "
        "after that go, so delete old chunks once by hand",
    )


def _routing(deployment: Deployment, wiring: Wiring) -> Iterator[Finding]:
    if deployment.routing is RoutingPolicy.GATEWAY and wiring.routing_is_switched_on:
        yield Finding(
            FindingKind.ROUTING_CONFLICT,
            Severity.WARNING,
            "A gateway and a router are both switched on",
            "inferenceGateway.enabled and intelligentRoutingSpec.enabled are both true.",
            "the router cannot be switched off in place: create the endpoint anew without it",
        )
    if deployment.routing is RoutingPolicy.KVAWARE and not sees_prompts(wiring):
        yield Finding(
            FindingKind.KVAWARE_BLIND,
            Severity.CRITICAL,
            "The kvaware router cannot look prompts up on this path",
            f"Requests are sent to {wiring.invocation_path or 'the default path'}; kvaware needs a path that "
            "ends in completions and is no chat: the chat template is not applied before the look-up.",
            "choose prefixaware, or send requests to /completions",
            (_patch("Choose prefixaware.", strategy_patch(deployment, RoutingPolicy.PREFIXAWARE)),),
        )
    if deployment.routing is RoutingPolicy.NONE and deployment.replicas > 1:
        yield Finding(
            FindingKind.ROUTING_ABSENT,
            Severity.INFO,
            "Nothing looks at prompts when a replica is chosen",
            f"{deployment.replicas} replicas behind the load balancer alone: of what one holds in L0 and L1, "
            f"another request of the same session finds one part in {deployment.replicas}.",
            "a router cannot be added in place: create the endpoint anew with intelligentRoutingSpec.enabled",
        )


def _patch(what: str, operations: JsonValue) -> Apply:
    return Apply(what, ApplyFormat.JSON_PATCH, operations)
