"""Shared prefixes, against counting sets of paths."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import workloads as w
from tierscope.analytics.prefixes import shared_prefixes


def chain(path: list[int]) -> np.ndarray:
    """A chain whose hashes name the whole path before them."""
    names, name = [], 0
    for step in path:
        name = (name * 31 + step + 1) % 2**61
        names.append(name)
    return np.array(names, dtype=np.uint64)


def naive(chains: list[np.ndarray], prompt: np.ndarray, computed: np.ndarray) -> dict[str, tuple[int, ...]]:
    uses, after, late = Counter(), defaultdict(Counter), Counter()
    for number, blocks in enumerate(chains):
        path = tuple(blocks.tolist())
        for end in range(1, len(path) + 1):
            uses[path[:end]] += 1
            late[path[:end]] += end * w.BLOCK_TOKENS > prompt[number] - computed[number]
            if end < len(path):
                after[path[:end]][path[: end + 1]] += 1
    return {
        f"{path[-1]:016x}": (len(path) * w.BLOCK_TOKENS, count, late[path])
        for path, count in uses.items()
        if count > 1 and count not in after[path].values()
    }


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=12), st.integers(0, 40))
def test_prefixes_are_those_that_counting_paths_finds(paths, served):
    """Tokens, requests and how often it was computed, for each of them, the most valuable first."""
    chains = [chain(path) for path in paths]
    hits = np.minimum([served] * len(chains), [len(one) * w.BLOCK_TOKENS for one in chains])
    window = w.window(chains, hits=(hits, np.zeros_like(hits), np.zeros_like(hits)))
    found = shared_prefixes(window, most=1000)

    assert {
        one.block_hash: (one.prefix_tokens, one.requests, one.computed_requests) for one in found
    } == naive(chains, window.prompt, window.computed)
    assert [one.repeated_tokens for one in found] == sorted(
        (one.prefix_tokens * (one.requests - 1) for one in found), reverse=True
    )


def test_a_prefix_names_the_one_it_continues():
    """Three begin with one block, two of them go on together; replicas are counted once."""
    chains = [chain([0, 1, 2]), chain([0, 1, 3]), chain([0, 2])]
    found = shared_prefixes(w.window(chains, replicas=2), most=10)

    by_tokens = {one.prefix_tokens: one for one in found}
    assert sorted(by_tokens) == [16, 32]
    assert by_tokens[32].parent_hash == by_tokens[16].block_hash
    assert by_tokens[16].parent_hash is None
    assert (by_tokens[16].requests, by_tokens[16].replicas) == (3, 2)


def test_nothing_is_shared_by_one():
    """One request, and none at all."""
    assert shared_prefixes(w.window([chain([0, 1])]), most=10) == ()
    assert shared_prefixes(w.window([]), most=10) == ()
