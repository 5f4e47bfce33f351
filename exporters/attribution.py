"""Which tier served each token of an admission, and which one a request is said to be served from.

The rule of every sum: prompt = l0 + l1 + l2 + external + computed. L0 is what the engine found in its own
cache; a load through the connector counts only beyond that, and goes to the tier that the record names,
or to `external` with the reason. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporters.vllm.hook import Admit
from tierscope.domain.requests import ExternalReason, TokenSplit
from tierscope.domain.tiers import Origin

ORIGIN_OF_LOAD = {"host": Origin.L1, "disk": Origin.L2}
"""The connector's names of tiers we know; every other (`p2p`, `external_unspecified`) is external."""

OUTERMOST_FIRST = (Origin.L2, Origin.EXTERNAL, Origin.L1, Origin.L0)
"""From far to near. External stands before L1: of what nobody told us, L1 is the nearest it can be."""

LOADED = frozenset({Origin.L1, Origin.L2, Origin.EXTERNAL})
"""Origins that a request waits for."""


def split_admission(admit: Admit) -> tuple[TokenSplit, ExternalReason | None]:
    """Return an admission's tokens by origin, and why some of them are external where they are.

    A first admission takes the engine's own numbers (`ps`: the ones behind its counters) where there are
    any. A re-admission has to fill what was already generated too: its prompt is that whole.
    Raises `BadInput` when the parts do not add up.
    """
    prompt, local, external = admit.prompt, admit.local, admit.external
    if admit.attempt > 0:
        prompt = admit.total if admit.total is not None else prompt
    elif admit.ps is not None:
        prompt, local, external = admit.ps
    l1, l2 = _known_loads(admit.split or {}, external)
    unknown = external - l1 - l2
    tokens = TokenSplit(
        prompt=prompt, l0=local, l1=l1, l2=l2, external=unknown, computed=prompt - local - external
    )
    return tokens, ExternalReason.NOT_REPORTED if unknown else None


def _known_loads(split: Mapping[str, int], external: int) -> tuple[int, int]:
    """Tokens loaded from L1 and L2; none of a split that names more than was loaded."""
    loads = {origin: split.get(name, 0) for name, origin in ORIGIN_OF_LOAD.items()}
    if sum(split.values()) > external:
        return 0, 0
    return loads[Origin.L1], loads[Origin.L2]


def served_from(tokens: TokenSplit) -> Origin:
    """Return the outermost origin that served any of a prompt; computed when nothing did."""
    return next((origin for origin in OUTERMOST_FIRST if tokens.of(origin)), Origin.COMPUTED)


def loaded_from(tokens: TokenSplit) -> Origin | None:
    """Return the outermost origin that a request had to wait for, None when it loaded nothing."""
    origin = served_from(tokens)
    return origin if origin in LOADED else None
