"""Which tier served each token of an admission, and which one a request is said to be served from.

The rule of every sum: prompt = l0 + l1 + l2 + external + computed. L0 is what the engine found in its own
cache; a load through the connector counts only beyond that, and goes to the tier that the record names,
or the cache server's own lookup of that request, or to `external` with the reason. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporters.lookups import CLOCK_ALLOWANCE_SECONDS
from exporters.vllm.hook import Admit
from tierscope.domain.requests import CacheLookup, ExternalReason, TokenSplit
from tierscope.domain.tiers import Origin

ORIGIN_OF_LOAD = {"host": Origin.L1, "disk": Origin.L2}
"""The connector's names of tiers we know; every other (`p2p`, `external_unspecified`) is external."""

UNSPECIFIED = "external_unspecified"
"""What vLLM says from 0.32 on where a connector does not tell the tiers, as LMCache's does not: no split."""

OUTERMOST_FIRST = (Origin.L2, Origin.EXTERNAL, Origin.L1, Origin.L0)
"""From far to near. External stands before L1: of what nobody told us, L1 is the nearest it can be."""

LOADED = frozenset({Origin.L1, Origin.L2, Origin.EXTERNAL})
"""Origins that a request waits for."""


def split_admission(
    admit: Admit,
    lookup: CacheLookup | None = None,
    otherwise: ExternalReason = ExternalReason.NOT_REPORTED,
) -> tuple[TokenSplit, ExternalReason | None]:
    """Return an admission's tokens by origin, and why some of them are external where they are.

    What the record itself does not split goes by the cache server's `lookup` for this admission; without
    one it is external, for the reason `otherwise`.

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
    if lookup is not None and not set(admit.split or {}) - {UNSPECIFIED}:
        l1, l2 = loaded_of(lookup, local, external)
    unknown = external - l1 - l2
    tokens = TokenSplit(
        prompt=prompt, l0=local, l1=l1, l2=l2, external=unknown, computed=prompt - local - external
    )
    return tokens, otherwise if unknown else None


def loaded_of(lookup: CacheLookup, local: int, external: int) -> tuple[int, int]:
    """Tokens loaded from L1 and L2 of the `external` ones that follow `local` ones.

    A lookup begins at the prompt's start, so it finds what L0 has too, and L1's part of what it finds
    always leads. So what L1 has beyond L0 was loaded from it, and the rest of the load from L2.
    """
    l1 = max(0, min(lookup.l1_hit_tokens, local + external) - local) if external else 0
    return l1, external - l1


def contradicts(lookup: CacheLookup, admit: Admit, tokens: TokenSplit, block_tokens: int) -> bool:
    """Whether a lookup cannot be the one that an admission loaded by.

    It ended before the admission, and found all that was loaded; of L0's last block the engine may use more
    than it asks the cache to go on from. Of an admission that loaded nothing it may have found less than L0.
    """
    loaded_to = tokens.l0 + tokens.l1 + tokens.l2 + tokens.external
    late = lookup.ended_unix_seconds > admit.ts + CLOCK_ALLOWANCE_SECONDS
    return late or (tokens.external > 0 and loaded_to >= lookup.hit_tokens + block_tokens)


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
