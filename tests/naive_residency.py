"""What an engine holds, block by block and slowly: the twin that `Residency` is held to."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby

from exporters.vllm.events import BlocksCleared, BlocksRemoved, BlocksStored, tier_of_medium
from tierscope.domain.events import BlockAction, EvictionReason
from tierscope.domain.tiers import Tier


class NaiveResidency:
    """Every copy is an entry of a list, oldest first: hash, time, the block before it."""

    def __init__(self, most_blocks):
        self.most_blocks = most_blocks
        self.copies = defaultdict(list)
        self.doubtful = defaultdict(list)
        self.unsure = set()
        self.ages = []
        self.oddities = Counter()
        self.events = []

    def apply(self, at, changes):
        """One batch; what came of it is added to `events`, `ages` and `oddities`."""
        for ordinal, (_, run) in enumerate(groupby(changes, _run_key())):
            said = list(run)
            for event in self._one(at, said, changes):
                self.events.append((*event, at, ordinal))
        self._bound()

    def held(self):
        """Copies by medium and group."""
        return {place: len(copies) for place, copies in self.copies.items()}

    def _one(self, at, said, changes):
        if isinstance(said[0], BlocksCleared):
            yield from self._clear()
            return
        hashes = [block for change in said for block in change.block_hashes]
        place, tier = (said[0].medium, said[0].group), tier_of_medium(said[0].medium)
        if not hashes:
            return
        if tier is None:
            self.oddities[f"medium {place[0]}"] += len(hashes)
        elif isinstance(said[0], BlocksStored):
            yield from self._store(at, said[0], place, tier)
        else:
            yield from self._remove(at, hashes, place, tier, changes)

    def _store(self, at, change, place, tier):
        hashes, parent = change.block_hashes, change.parent_hash
        befores = [hashes[hashes.index(block) - 1] if hashes.index(block) else parent for block in hashes]
        told = [(block, at, before) for block, before in zip(hashes, befores, strict=True)]
        if parent is None and set(hashes) <= {block for block, *_ in self.copies[place]}:
            self.doubtful[place] += told
            return
        self.copies[place] += told
        yield tier, BlockAction.STORED, None, hashes, parent

    def _remove(self, at, hashes, place, tier, changes):
        unseen = 0
        self.copies[place] += []
        for block in hashes:
            if (found := _take(self.copies[place], block)) is None:
                if (found := _take(self.doubtful[place], block)) is None:
                    unseen += 1
                    continue
                yield tier, BlockAction.STORED, None, (block,), found[2]
            self.ages.append((tier, max(0.0, at - found[1])))
        if unseen and tier not in self.unsure:
            self.oddities["removal of a block never seen stored"] += unseen
        below = self._below(tier, changes)
        for reason, is_below in ((EvictionReason.CAPACITY, False), (EvictionReason.DEMOTED, True)):
            left = tuple(block for block in hashes if (block in below) is is_below)
            if left:
                yield tier, BlockAction.EVICTED, reason, left, None

    def _below(self, tier, changes):
        """Blocks of lower tiers, as they are and as the batch stores them."""
        now = {
            b for (medium, _), held in self.copies.items() if tier_of_medium(medium) > tier for b, *_ in held
        }
        coming = [c for c in changes if isinstance(c, BlocksStored) and tier_of_medium(c.medium)]
        return now.union(*(c.block_hashes for c in coming if tier_of_medium(c.medium) > tier))

    def _clear(self):
        gone = Counter()
        for place in list(self.copies):
            tier = tier_of_medium(place[0])
            if tier is Tier.L0:
                gone += Counter(block for block, *_ in self.copies[place])
                self.copies[place], self.doubtful[place] = [], []
            if tier is Tier.L1:
                del self.copies[place]
                self.doubtful[place] = []
                self.unsure |= {tier}
        self.unsure -= {Tier.L0}
        if gone:
            yield Tier.L0, BlockAction.EVICTED, EvictionReason.CLEAR, gone, None

    def _bound(self):
        for tier in Tier:
            places = [place for place in self.copies if tier_of_medium(place[0]) is tier]
            if sum(len(self.copies[place]) for place in places) > self.most_blocks:
                for place in places:
                    self.copies[place], self.doubtful[place] = [], []
                self.oddities["tier too large to follow"] += tier not in self.unsure
                self.unsure |= {tier}


def _run_key():
    """Removals of one place have one key, each other change a key of its own."""
    return lambda change: (
        (change.medium, change.group) if isinstance(change, BlocksRemoved) else (id(change), object())
    )


def _take(copies, block):
    for place, copy in enumerate(copies):
        if copy[0] == block:
            return copies.pop(place)
    return None
