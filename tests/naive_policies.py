"""Slow twins of the eviction policies: lists and dictionaries, searched from end to end, obviously right."""

from __future__ import annotations

from collections.abc import Sequence

Path = Sequence[int]


def leading(path: Path, cache: Sequence[int] | set[int] | dict[int, int]) -> int:
    """Blocks from the root on that a cache holds."""
    hit = 0
    while hit < len(path) and path[hit] in cache:
        hit += 1
    return hit


def lru(paths: Sequence[Path], capacity: int) -> list[int]:
    """Oldest first in a list; the root of the newest path is its end."""
    cache: list[int] = []
    hits = []
    for path in paths:
        hits.append(leading(path, cache))
        cache = [block for block in cache if block not in path] + list(reversed(path))
        cache = cache[max(len(cache) - capacity, 0) :]
    return hits


def fifo(paths: Sequence[Path], capacity: int) -> list[int]:
    """First come first in a list; nothing moves."""
    cache: list[int] = []
    hits = []
    for path in paths:
        hits.append(leading(path, cache))
        for block in path:
            if block not in cache and capacity:
                cache = [*cache, block][-capacity:]
    return hits


def s3fifo(paths: Sequence[Path], capacity: int) -> list[int]:
    """Three lists: small, main and ghosts."""
    small: list[int] = []
    main: list[int] = []
    ghosts: list[int] = []
    uses: dict[int, int] = {}
    most_small, most_ghosts = max(capacity // 10, 1), capacity * 9 // 10
    filling = True
    hits = []
    for path in paths:
        hits.append(leading(path, [*small, *main]))
        for block in reversed(path) if capacity else ():
            if block in small or block in main:
                uses[block] = min(uses[block] + 1, 3)
                continue
            known = block in ghosts
            ghosts = [ghost for ghost in ghosts if ghost != block]
            while len(small) + len(main) == capacity:
                filling = False
                if len(main) > capacity - most_small or not small:
                    while uses[main[0]]:
                        uses[main[0]] -= 1
                        main.append(main.pop(0))
                    main.pop(0)
                    continue
                while small and uses[small[0]] > 1:
                    uses[small[0]] = 0
                    main.append(small.pop(0))
                if small:
                    ghosts.append(small.pop(0))
                    ghosts = ghosts[max(len(ghosts) - most_ghosts, 0) :]
            uses[block] = 0
            (main if known or (filling and len(small) >= most_small) else small).append(block)
    return hits


def _leaves(cache: dict[int, tuple[int, ...]], paths: Sequence[Path]) -> set[int]:
    """Cached blocks that precede no other cached block on any path."""
    inner = {path[k - 1] for path in paths for k in range(1, len(path)) if path[k] in cache}
    return set(cache) - inner


def lfu(paths: Sequence[Path], capacity: int) -> list[int]:
    """Block to (uses, last request); the leaf with the smallest pair goes."""
    cache: dict[int, tuple[int, ...]] = {}
    hits = []
    for request, path in enumerate(paths):
        hit = leading(path, set(cache))
        hits.append(hit)
        for block in path[:hit]:
            cache[block] = (cache[block][0] + 1, request)
        for block in path[hit:]:
            if len(cache) >= capacity:
                victims = _leaves(cache, paths) - set(path)
                if not victims:
                    break
                del cache[min(victims, key=lambda victim: (*cache[victim], -victim))]
            cache[block] = (1, request)
    return hits


def opt(paths: Sequence[Path], capacity: int) -> list[int]:
    """Keep, of all blocks there are after a request, those needed soonest, a parent before its child."""
    cache: set[int] = set()
    hits = []
    for request, path in enumerate(paths):
        hits.append(leading(path, cache))
        cache |= set(path)

        def needed(block: int, after: int = request + 1, now: Path = path) -> tuple[int, int, int]:
            uses = [k for k in range(after, len(paths)) if block in paths[k]]
            depth = next(p.index(block) for p in paths if block in p)
            return (min(uses, default=len(paths)), block not in now, depth)

        cache = set(sorted(cache, key=needed)[:capacity])
    return hits


TWINS = {"lru": lru, "fifo": fifo, "s3fifo": s3fifo, "lfu": lfu, "opt": opt}
