"""How a deployment could be routed: the policies it can use, and why it cannot use the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tierscope.advice.routing.sample import Sample
from tierscope.advice.wiring_findings import RANDOM_SEED, sees_prompts
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.tiers import Tier
from tierscope.domain.wiring import CacheScope, Wiring
from tierscope.sim.routers.gateway import Weights
from tierscope.sim.routers.prefixaware import MOST_REPLICAS
from tierscope.sim.serving import CHART_WEIGHTS

STRATEGIES = (
    RoutingPolicy.ROUNDROBIN,
    RoutingPolicy.SESSION,
    RoutingPolicy.PREFIXAWARE,
    RoutingPolicy.KVAWARE,
)
TRIED_WEIGHTS = (CHART_WEIGHTS, Weights(1, 1, 4), Weights(3, 3, 1), Weights(1, 1, 0))
"""The chart's own; prefix before all; load before prefix; load alone."""
WEIGHT_NAMES = {"queue": "queue", "kvCache": "kv_cache", "prefix": "prefix"}
"""Scores that are modelled, by their names in the resource."""
KVAWARE_SINCE, KVAWARE_BEFORE = (0, 19, 1), (0, 11, 1)
"""vLLM of which `kvaware` works: with operators since 3.1.3, and exactly this one with older ones."""
SESSIONLESS = 0.5
"""Share of requests without a session from which on `session` is mostly its fallback."""


class Option(NamedTuple):
    """One way to route: a policy, and for the gateway its weights."""

    policy: RoutingPolicy
    weights: Weights | None = None

    @property
    def name(self) -> str:
        """As the resource says it: `session`, or `queue 2, kvCache 2, prefix 3`."""
        return ", ".join(f"{name} {weight:g}" for name, weight in self.by_name.items()) or self.policy.value

    @property
    def by_name(self) -> dict[str, float]:
        """The weights by their names in the resource; none where there is no gateway."""
        return {} if self.weights is None else dict(zip(WEIGHT_NAMES, self.weights, strict=True))


class Excluded(NamedTuple):
    """A policy that is not compared, and why."""

    policy: RoutingPolicy
    because: str


class Options(NamedTuple):
    """How it is routed today (as far as it can be simulated), what else it could be, and what it cannot."""

    today: Option
    others: tuple[Option, ...]
    excluded: tuple[Excluded, ...]


def options_of(deployment: Deployment, sample: Sample) -> Options | None:
    """What can be compared; None where it is not known how the deployment is routed."""
    if deployment.routing is RoutingPolicy.UNKNOWN:
        return None
    if deployment.routing is RoutingPolicy.GATEWAY:
        today = Option(RoutingPolicy.GATEWAY, weights_in_force(deployment.wiring))
        others = (Option(RoutingPolicy.GATEWAY, weights) for weights in TRIED_WEIGHTS)
        return Options(today, tuple(one for one in others if one.weights != today.weights), ())
    # A load balancer alone sends each replica as many requests as any other, whatever they are.
    spread = deployment.routing is RoutingPolicy.NONE
    today = Option(RoutingPolicy.ROUNDROBIN if spread else deployment.routing)
    excluded = tuple(_excluded(deployment, sample))
    without = {one.policy for one in excluded} | {today.policy}
    return Options(today, tuple(Option(p) for p in STRATEGIES if p not in without), excluded)


def modelled_only_in_part(deployment: Deployment) -> tuple[str, ...]:
    """Scores in force that the comparison knows nothing of."""
    gateway = deployment.wiring.gateway if deployment.wiring else None
    weights = gateway.weights if gateway else ()
    return tuple(one.scorer for one in weights if one.scorer not in WEIGHT_NAMES and one.weight)


def weights_in_force(wiring: Wiring | None) -> Weights:
    """Weights of the gateway's scores that are modelled; the chart's where none are set."""
    set_ = {one.scorer: one.weight for one in (wiring.gateway.weights if wiring and wiring.gateway else ())}
    known = {field: float(set_[name]) for name, field in WEIGHT_NAMES.items() if name in set_}
    return CHART_WEIGHTS._replace(**known)


def _excluded(deployment: Deployment, sample: Sample) -> Iterator[Excluded]:
    nobody = float((sample.trace.session < 0).mean()) if sample.trace.requests else 1.0
    if nobody > SESSIONLESS:
        yield Excluded(
            RoutingPolicy.SESSION,
            f"{nobody:.0%} of the requests have no session, and are spread by count of requests then",
        )
    if deployment.replicas > MOST_REPLICAS:
        yield Excluded(RoutingPolicy.PREFIXAWARE, f"it is simulated for at most {MOST_REPLICAS} replicas")
    if because := kvaware_is_blind(deployment):
        yield Excluded(RoutingPolicy.KVAWARE, because)


def kvaware_is_blind(deployment: Deployment) -> str | None:
    """Why a `kvaware` router would find nothing here; None where it would see what L1 holds."""
    return next(_blindness(deployment), None)


def _blindness(deployment: Deployment) -> Iterator[str]:
    wiring = deployment.wiring
    if deployment.tier(Tier.L1) is None or (wiring is not None and wiring.l1_is_on is False):
        yield "it sees nothing but L1, and there is none"
    if wiring is None:
        yield "it reads prompts on the completions path alone, and which path is used is not known"
        return
    if not sees_prompts(wiring):
        path = wiring.invocation_path or "the default path"
        yield f"it reads prompts on the completions path alone, and requests go to {path}"
    if wiring.l1_scope is CacheScope.NODE:
        yield "its controller hears from caches inside engines alone, and here a server of the node is one"
    if len(wiring.hash_seeds) > 1 or RANDOM_SEED in wiring.hash_seeds:
        yield "the replicas name blocks by different hash seeds, so its look-ups find nothing"
    release = _vllm_release(wiring.engine_image or "")
    if release is not None and release < KVAWARE_SINCE and release != KVAWARE_BEFORE:
        told = ".".join(map(str, release))
        yield f"it needs vLLM 0.19.1 or later (or, with older operators, 0.11.1), and the image has {told}"


def _vllm_release(image: str) -> tuple[int, int, int] | None:
    """The release that an image's tag tells; None where it tells none.

    >>> _vllm_release("registry:5000/vllm/vllm-openai:v0.18.0-cu129")
    (0, 18, 0)
    >>> _vllm_release("example/vllm-lmcache:pinned")
    """
    found = re.search(r"vllm[^/:]*:v?(\d+)\.(\d+)\.(\d+)", image)
    if found is None:
        return None
    major, minor, patch = map(int, found.groups())
    return major, minor, patch
