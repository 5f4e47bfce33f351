"""`kvaware`: LMCache's controller asked who holds the prompt; it answers with whoever registered first.

For each chunk it names the first registered replica that holds it in L1. The request goes to the one named
for the first chunk, if what that one was named for reaches to within 2,000 tokens of the prompt's end,
however much more a later one holds. L0 and L2 are not seen, and neither are chats: their bodies have no
field `prompt`.
"""

from __future__ import annotations

from numba import njit

from tierscope.domain.trace import Int32Array
from tierscope.sim.lmcache import Shelves

THRESHOLD_TOKENS = 2000
NOBODY = -1


@njit(cache=True)
def pick(shelves: Shelves, chunks: Int32Array, prompt_tokens: int, chunk_tokens: int) -> int:
    """The replica that the controller names, or NOBODY: then the session's, or whoever was asked least."""
    named = NOBODY
    matched_tokens = 0
    for k in range(len(chunks)):
        holder = NOBODY
        for replica in range(len(shelves.held)):
            if shelves.held[replica, chunks[k]]:
                holder = replica
                break
        if holder == NOBODY:
            break
        if named == NOBODY:
            named = holder
        if holder == named:
            matched_tokens = (k + 1) * chunk_tokens
    if named == NOBODY or matched_tokens < max(prompt_tokens - THRESHOLD_TOKENS, 0):
        return NOBODY
    return named
