"""Known traces have known answers: exact hit counts, and a generated trace beside its slow twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests import naive
from tierscope.analytics.chains import Chains, chains_of
from tierscope.analytics.curve import hit_blocks_per_request, hit_ratio_curve
from tierscope.domain.trace import Trace
from tierscope.traces.open import read_trace

HITS = {  # capacity: (blocks, tokens)
    1: (32, 16_384),
    2: (64, 32_768),
    5: (123, 62_911),
    10: (220, 112_357),
    20: (371, 188_854),
    40: (543, 276_252),
    80: (669, 339_500),
    160: (813, 412_054),
    240: (837, 424_124),
    320: (837, 424_124),
}


@pytest.fixture
def conversations(fixtures: Path) -> Trace:
    """90 requests: chats, shared documents, prompts no one repeats; most end in a partial block."""
    return read_trace(fixtures / "traces" / "conversations.jsonl")


def test_the_conversations_have_their_known_counts(conversations):
    """1,115 accesses of 278 blocks, 555,302 prompt tokens."""
    curve = hit_ratio_curve(chains_of(conversations))

    assert (conversations.requests, conversations.accesses, curve.unique_blocks) == (90, 1_115, 278)
    assert int(conversations.input_tokens.sum()) == 555_302


@pytest.mark.parametrize("capacity", HITS)
def test_the_conversations_have_their_known_hits(conversations, capacity):
    """A change in a count is a change to explain."""
    chains = chains_of(conversations)
    blocks, tokens = HITS[capacity]
    sizes = np.array([capacity])
    last = conversations.input_tokens - 512 * (np.diff(conversations.offsets) - 1)

    by_blocks = hit_ratio_curve(chains)
    by_tokens = hit_ratio_curve(chains, block_weight=512, last_block_weights=last)

    assert by_blocks.at(sizes)[0] == blocks / 1_115
    assert by_tokens.at(sizes)[0] == tokens / 555_302
    assert hit_blocks_per_request(chains, sizes).sum() == blocks


def grown_conversations(*, requests: int, seed: int) -> Chains:
    """Conversations of hundreds of turns that grow, branch and fall silent, over a shared root."""
    rng = np.random.default_rng(seed)
    heads = [[0, 1, 2]]
    blocks = 3
    paths = []
    for _ in range(requests):
        head = heads[-1 - min(int(rng.geometric(0.1)) - 1, len(heads) - 1)]
        grown = int(rng.integers(0, 9))
        path = head[: len(head) - int(rng.integers(0, 3))] + list(range(blocks, blocks + grown))
        blocks += grown
        paths.append(path)
        heads.append(path if rng.random() < 0.9 else [0])
    offsets = np.cumsum([0, *map(len, paths)], dtype=np.int64)
    return Chains(offsets, np.array([block for path in paths for block in path], dtype=np.int32), blocks)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_generated_hour_hits_as_the_naive_twin_at_twenty_capacities(seed):
    """Request by request, from one block to all of them."""
    chains = grown_conversations(requests=800, seed=seed)
    capacities = np.unique(np.geomspace(1, chains.n_ids, 20).astype(np.int64))

    hits = hit_blocks_per_request(chains, capacities)
    curve = hit_ratio_curve(chains)

    expected = [
        [naive.leading_hits(depths, int(capacity)) for capacity in capacities]
        for depths in naive.request_depths_of(chains)
    ]
    assert hits.tolist() == expected
    assert np.array_equal(curve.at(capacities) * chains.accesses, hits.sum(axis=0))
