"""What a router's picks lost: between what the best replica had and what the chosen one delivered."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.domain.trace import Int64Array


class RoutingLoss(NamedTuple):
    """Prompt tokens, summed over requests: `ceiling` = delivered + `routing` + `belief`.

    `routing` is what a better pick would have matched by the router's own reckoning, `belief` what the router
    took for matched and the engine did not have. Either is negative where it worked out better than that.
    """

    ceiling: int
    delivered: int
    routing: int
    belief: int


def routing_loss(best: Int64Array, predicted: Int64Array, delivered: Int64Array) -> RoutingLoss:
    """Split the loss of n requests: tokens the best replica held, the router foretold, the engine hit."""
    ceiling, foretold, had = (int(np.sum(part)) for part in (best, predicted, delivered))
    return RoutingLoss(ceiling, had, ceiling - foretold, foretold - had)
