"""How another way to route is put in force, what that disturbs, and when to undo it."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from tierscope.advice.document import Apply, ApplyFormat, RevertIf
from tierscope.advice.patches import RE_RENDER, revert_if
from tierscope.advice.resource import strategy_patch, weights_patch
from tierscope.advice.routing.options import modelled_only_in_part
from tierscope.advice.routing.study import Comparison, Outcome
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.tiers import Tier

COLD_ROUTER = (
    "The router restarts and has forgotten whom it sent what: until it has seen the traffic again, hits in "
    "L0 and L1 fall. Several replicas of the router share nothing with each other."
)
MUTABLE = (
    "Whether the operator takes another strategy for a running endpoint is not documented: have the server "
    "check it first (tierscope apply --dry-run). Where it refuses, create the endpoint anew beside this one."
)
RISKS = {
    RoutingPolicy.SESSION: (
        "session keeps a conversation on its replica whatever the load there; the router takes the session "
        "from a header that every client must send, and spreads requests without it by count."
    ),
    RoutingPolicy.PREFIXAWARE: (
        "prefixaware is never told what was evicted, does not look at load, and its memory of prompts only "
        "grows until the router is restarted."
    ),
    RoutingPolicy.KVAWARE: (
        "kvaware sends what several replicas hold to the one that registered first; it needs operator 3.1.3 "
        "with vLLM 0.19.1 and LMCache 0.4.3 or later (before: vLLM 0.11.1 with LMCache 0.3.9post2), one "
        "engine an address, and an invocation path that ends in completions."
    ),
    RoutingPolicy.ROUNDROBIN: (
        "roundrobin finds in L0 and L1 only what happens to be on the replica whose turn it is."
    ),
}


def apply_routing(deployment: Deployment, then: Outcome) -> tuple[Apply, ...]:
    """The steps to the other way to route."""
    if deployment.routing is RoutingPolicy.GATEWAY:
        return (_gateway(deployment, then),)
    if deployment.routing is RoutingPolicy.NONE:
        return (_beside(deployment, then),)
    what = (
        f"Patch the endpoint {deployment.endpoint} in namespace {deployment.namespace}: "
        f"spec.intelligentRoutingSpec.routingStrategy {then.option.name}."
    )
    return (Apply(what, ApplyFormat.JSON_PATCH, strategy_patch(deployment, then.option.policy)),)


def _gateway(deployment: Deployment, then: Outcome) -> Apply:
    wiring = deployment.wiring
    if wiring is None or wiring.gateway is None:
        return Apply(
            "Set weights of the endpoint's scheduler (spec.schedulers[].weights) in its "
            "InferenceGatewayConfig.",
            ApplyFormat.ARGUMENTS,
            dict[str, JsonValue](then.option.by_name),
        )
    return Apply(
        f"Patch the InferenceGatewayConfig {wiring.gateway.name} in namespace {wiring.gateway.namespace} "
        "(kubectl patch --type=json). Weights and a configMapRef exclude each other.",
        ApplyFormat.GATEWAY_PATCH,
        weights_patch(wiring, then.option.by_name),
    )


def _beside(deployment: Deployment, then: Outcome) -> Apply:
    return Apply(
        "intelligentRoutingSpec can be neither added to a running endpoint nor switched later. Create a "
        f"second one: copy the resource of {deployment.endpoint} in namespace {deployment.namespace} under "
        "another name without status, uid and resourceVersion, apply this patch to the copy, and create it. "
        "Wait for the state DeploymentComplete, move the clients over to its address, and delete the old "
        "one when nothing comes there any more. For that time both need nodes; what the shared pool holds "
        "serves both.",
        ApplyFormat.COPY_PATCH,
        [
            {
                "op": "add",
                "path": "/spec/intelligentRoutingSpec",
                "value": {"enabled": True, "routingStrategy": then.option.name},
            }
        ],
    )


def routing_risks(comparison: Comparison, then: Outcome) -> tuple[str, ...]:
    """What may go wrong, and what was left out of the comparison."""
    deployment = comparison.fleet.deployment
    found = []
    if deployment.routing is RoutingPolicy.GATEWAY:
        found += [
            "The gateway's memory of prompts is its own, and stays; new weights hold from the next request."
        ]
        if unknown := modelled_only_in_part(deployment):
            found.append(
                f"Weights of {', '.join(unknown)} are in force and not part of the comparison; they stay."
            )
    else:
        found += [RISKS[then.option.policy], COLD_ROUTER]
        if deployment.routing is not RoutingPolicy.NONE:
            found += [MUTABLE, RE_RENDER]
    if then.imbalance > comparison.today.imbalance:
        found.append(
            f"The busiest replica gets {then.imbalance:.2f} times the mean of the prompt tokens instead of "
            f"{comparison.today.imbalance:.2f}; with more traffic it is the first to queue up."
        )
    found += [f"{one.policy.value} was not considered: {one.because}." for one in comparison.excluded]
    return tuple(found)


def routing_revert_if(deployment: Deployment, then: Outcome) -> tuple[RevertIf, ...]:
    """What was promised and does not come."""
    predicted = then.predicted
    hits, *ttft = revert_if(Tier.L2, deployment, predicted.hit_ratio.total, predicted.ttft_p90_seconds)
    return (replace(hits, what="the hit ratio stays below what was predicted for this routing"), *ttft)
