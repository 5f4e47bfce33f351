"""Our policies next to a simulator that nobody here wrote."""

from __future__ import annotations

import pytest

from tests.peer_simulator import POLICIES, our_hit_tokens, peer_hit_tokens
from tierscope.sim.policies import policy_named
from tierscope.traces.open import read_trace
from tierscope.traces.paths import Paths

LONGEST = 36
"""Blocks of the longest prompt. Where that does not fit, the peer's LRU drops the block it stored last and
ours keeps as many leading blocks as there is room for: they are compared from there on."""
CAPACITIES = [2, 3, 5, 8, 13, 21, LONGEST, 40, 55, 89, 144, 200]


@pytest.mark.parametrize("name", POLICIES)
def test_the_peer_hits_the_same_tokens_at_every_capacity(name, fixtures):
    """Zero tokens different, at each capacity that the peer measures."""
    trace = read_trace(fixtures / "traces" / "conversations.jsonl")
    paths = Paths(trace.offsets, trace.block_ids, int(trace.block_ids.max()) + 1)
    sizes = [size for size in CAPACITIES if name != "lru" or size >= LONGEST]

    theirs = peer_hit_tokens(trace, name, sizes)

    ours = {size: our_hit_tokens(trace, policy_named(name).leading_hits(paths, size)) for size in theirs}
    assert ours == theirs
    assert len(theirs) > 3
    assert paths.lengths.max() == LONGEST
