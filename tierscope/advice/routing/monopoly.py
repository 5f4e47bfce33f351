"""Whether `prefixaware` makes one replica serve everybody, told from the first blocks of the prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tierscope.advice.document import Finding, FindingKind
from tierscope.advice.thresholds import MONOPOLY_CONCENTRATION, MONOPOLY_SHARE
from tierscope.domain.deployment import Deployment, RoutingPolicy
from tierscope.domain.severity import Severity
from tierscope.domain.window import RequestWindow
from tierscope.sim.routers.prefixaware import PIECE_CHARACTERS, pieces_of

FIX = (
    "choose session or roundrobin; or let prompts differ within their first 128 characters (the tenant "
    "first, the shared instructions after it); or give the router a minimum match longer than what is "
    "shared, where it has that setting"
)


class FirstPiece(NamedTuple):
    """The beginning that most requests share: their share, and how many of them the busiest replica got.

    A trace of blocks larger than a router's piece shows only beginnings as long as a block, so the share is
    then a lower bound.
    """

    share: float
    concentration: float
    busiest: str
    characters: int


def first_piece(window: RequestWindow) -> FirstPiece | None:
    """The most common beginning of the window's prompts; None where no prompt is as long as one."""
    if not window.requests:
        return None
    blocks, characters = pieces_of(window.block_tokens)
    long_enough = np.flatnonzero(np.diff(window.offsets) >= blocks)
    if not len(long_enough):
        return None
    # A block's hash names everything before it, so the piece's last block names the piece.
    named = window.block_hashes[window.offsets[long_enough] + blocks - 1]
    _, of, counts = np.unique(named, return_inverse=True, return_counts=True)
    sharing = long_enough[of == int(counts.argmax())]
    by_engine = np.bincount(window.engine[sharing], minlength=len(window.engines))
    return FirstPiece(
        share=len(sharing) / window.requests,
        concentration=float(by_engine.max() / len(sharing)),
        busiest=window.engines[int(by_engine.argmax())].replica,
        characters=characters,
    )


def threatens(piece: FirstPiece | None, deployment: Deployment) -> bool:
    """Whether a `prefixaware` router would send most of the traffic to one replica."""
    return piece is not None and deployment.replicas > 1 and piece.share > MONOPOLY_SHARE


def monopoly_findings(window: RequestWindow, deployment: Deployment) -> Iterator[Finding]:
    """Say it before it happens (the policy is another), while it may, and once it has."""
    piece = first_piece(window)
    routing = deployment.routing
    if piece is None or not threatens(piece, deployment) or routing is RoutingPolicy.GATEWAY:
        return
    least = "at least " if piece.characters > PIECE_CHARACTERS else ""
    shared = f"{least}{piece.share:.0%} of the requests begin with the same {piece.characters} characters"
    rule = "prefixaware sends all requests with one beginning to the replica that saw it first, for ever"
    if routing is not RoutingPolicy.PREFIXAWARE:
        yield Finding(
            FindingKind.PREFIXAWARE_MONOPOLY,
            Severity.INFO,
            "With prefixaware one replica would serve most of this traffic",
            f"{shared}; {rule}.",
            f"leave prefixaware out for this traffic; or {FIX.partition('; or ')[2]}",
        )
        return
    there = piece.concentration >= MONOPOLY_CONCENTRATION
    got = f"{piece.concentration:.0%} of them went to {piece.busiest}"
    yield Finding(
        FindingKind.PREFIXAWARE_MONOPOLY,
        Severity.CRITICAL if there else Severity.WARNING,
        "One replica serves most of the traffic because prompts begin alike"
        if there
        else "Prompts begin alike: prefixaware may come to send most of the traffic to one replica",
        f"{shared}; {rule}. Of {deployment.replicas} replicas, {got}.",
        FIX,
    )
