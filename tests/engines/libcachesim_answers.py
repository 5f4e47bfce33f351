"""Run in an environment with libcachesim: which accesses hit, by policy and size, from JSON to JSON."""

from __future__ import annotations

import json
import sys

import libcachesim

POLICIES = {"lru": libcachesim.LRU, "fifo": libcachesim.FIFO, "s3fifo": libcachesim.S3FIFO}


def hits(policy: str, size: int, ids: list[int]) -> list[int]:
    """Accesses, by number, that a cache of so many objects of size one answers."""
    cache = POLICIES[policy](cache_size=size)
    found = []
    for at, id_ in enumerate(ids):
        request = libcachesim.Request()
        request.obj_id, request.obj_size, request.clock_time = id_, 1, at
        if cache.get(request):
            found.append(at)
    return found


asked = json.load(sys.stdin)
answers = {policy: {size: hits(policy, size, asked["ids"]) for size in asked["sizes"]} for policy in POLICIES}
json.dump(answers, sys.stdout)
