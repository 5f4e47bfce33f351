"""Changes of an engine's cache as its events tell them, and what comes of them."""

from __future__ import annotations

from collections import Counter

from exporters.vllm.events import BlocksRemoved, BlocksStored, ChangeBatch


def stored(*hashes, medium="GPU", parent=None, group=0, tokens=16):
    """Blocks are stored."""
    return BlocksStored(hashes, medium, group, parent, tokens)


def removed(*hashes, medium="GPU", group=0):
    """Blocks are removed."""
    return BlocksRemoved(hashes, medium, group)


def apply(residency, *changes):
    """One batch: its events, and what was odd."""
    events, oddities = residency.apply(ChangeBatch(10.0, changes, 0))
    return events, [oddity.what for oddity in oddities]


def blocks(events):
    """Block copies by (tier, action, reason)."""
    return Counter(
        {
            key: sum(
                len(event.block_hashes) for event in events if (event.tier, event.action, event.reason) == key
            )
            for key in {(event.tier, event.action, event.reason) for event in events}
        }
    )
