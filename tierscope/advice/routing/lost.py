"""What today's routing loses of what the replicas hold: to the traffic, to the pick, to a stale belief."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tierscope.advice.document import Finding, FindingKind, RoutedHits
from tierscope.advice.routing.model import RoutedFleet
from tierscope.advice.routing.options import kvaware_is_blind, weights_in_force
from tierscope.advice.thresholds import SMALLEST_ROUTING_LOSS
from tierscope.analytics.depths import held_blocks
from tierscope.analytics.routing_loss import RoutingLoss, routing_loss
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.severity import Severity
from tierscope.domain.trace import Int64Array
from tierscope.sim.paths import block_paths, blocks_a_chunk, chunk_paths
from tierscope.sim.serving import DEFAULT_INDEX
from tierscope.traces.paths import Paths


def lost_by_routing(fleet: RoutedFleet) -> RoutingLoss | None:
    """The loss over the requests that count; None where records do not tell L1 from L2, or with one replica.

    What a replica held is what LRUs of today's sizes say, over what it was really asked. The pool is equally
    near to all and counts for none. `roundrobin`, `session` and a load balancer foretell nothing, so all
    that they lose is lost by the pick.
    """
    sample, replicas = fleet.sample, fleet.deployment.replicas
    if replicas < 2 or sample.window.external[sample.requests].any():
        return None
    blocks = block_paths(sample.trace)
    per_chunk = blocks_a_chunk(fleet.chunk_tokens, sample.trace.block_tokens)
    chunks = chunk_paths(blocks, per_chunk)
    units = ((blocks, fleet.sizes.l0_blocks, 1), (chunks, fleet.sizes.l1_chunks, per_chunk))
    size, most = sample.trace.block_tokens, np.maximum(sample.trace.input_tokens - 1, 0)
    best = np.zeros(sample.trace.requests, np.int64)
    foretold = np.zeros_like(best)
    delivered = sample.window.l0[sample.requests] + sample.window.l1[sample.requests]
    for replica in range(replicas):
        mine = sample.placement == replica
        for paths, capacity, per_unit in units:
            held = held_blocks(paths, mine, capacity).astype(np.int64) * per_unit * size if capacity else best
            best = np.maximum(best, held)
        foretold[mine] = _believed(fleet, blocks, chunks, mine)[mine] * size
    if not _foretells(fleet):
        foretold = delivered
    first = sample.first_measured
    best = np.maximum(np.minimum(best, most), delivered)
    return routing_loss(best[first:], np.minimum(foretold, most)[first:], delivered[first:])


def _foretells(fleet: RoutedFleet) -> bool:
    """Whether today's router reckons with what a replica has of a prompt."""
    routing, wiring = fleet.deployment.routing, fleet.deployment.wiring
    if routing is RoutingPolicy.GATEWAY:
        return weights_in_force(wiring).prefix > 0
    if routing is RoutingPolicy.KVAWARE:
        return kvaware_is_blind(fleet.deployment) is None
    return routing is RoutingPolicy.PREFIXAWARE


def _believed(
    fleet: RoutedFleet, blocks: Paths, chunks: Paths, mine: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Int64Array:
    """Blocks that today's router takes a replica, which served `mine` (m,), to have of each request: (m,)."""
    if fleet.deployment.routing is RoutingPolicy.KVAWARE:
        per_chunk = blocks_a_chunk(fleet.chunk_tokens, fleet.sample.trace.block_tokens)
        return held_blocks(chunks, mine, fleet.sizes.l1_chunks).astype(np.int64) * per_chunk
    is_gateway = fleet.deployment.routing is RoutingPolicy.GATEWAY
    remembered = DEFAULT_INDEX.tokens // fleet.sample.trace.block_tokens if is_gateway else blocks.n_ids
    return held_blocks(blocks, mine, max(remembered, 1)).astype(np.int64)


def routed_hits(fleet: RoutedFleet, loss: RoutingLoss | None) -> RoutedHits | None:
    """The loss as shares of the prompts; None where it is not known."""
    prompts = fleet.sample.trace.input_tokens[fleet.sample.first_measured :]
    prompt = int(prompts.sum())
    if loss is None or not prompt:
        return None
    return RoutedHits(
        requests=len(prompts),
        best_ratio=loss.ceiling / prompt,
        predicted_ratio=(loss.delivered + loss.belief) / prompt if _foretells(fleet) else None,
        delivered_ratio=loss.delivered / prompt,
    )


def loss_findings(fleet: RoutedFleet, loss: RoutingLoss | None) -> Iterator[Finding]:
    """The loss split, where it is worth a word."""
    prompt = int(fleet.sample.trace.input_tokens[fleet.sample.first_measured :].sum())
    if loss is None or not prompt:
        return
    if loss.ceiling - loss.delivered < SMALLEST_ROUTING_LOSS * prompt:
        return
    pick = loss.routing >= loss.belief
    yield Finding(
        FindingKind.ROUTING_LOSS,
        Severity.INFO,
        "Requests go to replicas that have less of the prompt than another one has",
        f"Of the prompt tokens, {1 - loss.ceiling / prompt:.1%} were in no replica's L0 or L1 (the traffic "
        f"and the sizes of the tiers), {loss.routing / prompt:.1%} were in another one's (the pick), "
        f"{loss.belief / prompt:.1%} the router took to be where they no longer were (its belief is stale); "
        f"{loss.delivered / prompt:.1%} were found.",
        "see the comparison of policies"
        if pick
        else "a router that is not told of evictions believes in more than the tiers hold: larger tiers, or "
        "one that looks at them, lose less",
    )
