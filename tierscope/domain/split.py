"""Prompt tokens of each request by the tier that serves them: the rule that puts three depths together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tierscope.domain.trace import Int64Array


class Split(NamedTuple):
    """Prompt tokens of each request by the tier that serves them: (n,) int64 each, summing to the prompt."""

    l0: Int64Array
    l1: Int64Array
    l2: Int64Array
    computed: Int64Array


def split_tokens(prompt: Int64Array, l0: Int64Array, l1: Int64Array, l2: Int64Array) -> Split:
    """Credit every prompt token to the first tier that has it, given each tier's depth in tokens: (n,) each.

    The last token of a prompt is always computed: L0 gives whole blocks short of it, which the depths
    already are unless the prompt ends on a block; L1 and L2 give up to it.
    """
    most = np.maximum(prompt - 1, 0)
    first, second, third = np.minimum(l0, most), np.minimum(l1, most), np.minimum(l2, most)
    np.maximum(second, first, out=second)
    np.maximum(third, second, out=third)
    computed = np.subtract(prompt, third, out=most)
    third -= second
    second -= first
    return Split(first, second, third, computed)


def whole_blocks_below(prompt: Int64Array, tokens: Int64Array, block_tokens: int) -> Int64Array:
    """Limit L0's depth to whole blocks that leave the last prompt token to compute: (n,) tokens."""
    below: Int64Array = np.minimum(tokens, np.maximum(prompt - 1, 0) // block_tokens * block_tokens)
    return below
