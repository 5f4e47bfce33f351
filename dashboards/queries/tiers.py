"""What each tier holds, what leaves it, and why."""

from __future__ import annotations

from collections.abc import Mapping

from dashboards.promql import (
    AnyOf,
    Matcher,
    bucket_rate,
    count_rate,
    gauge,
    one_of,
    quantile,
    rate,
    ratio,
    sum_by,
)
from dashboards.rules.recording import FOR_ROOM
from dashboards.variables import ENGINE, HERE, HOLDER_LABELS, L0_HOLDER
from tierscope.domain.tiers import Tier
from tierscope.registry.block_metrics import EVICTED_AGE, REUSE_GAP
from tierscope.registry.metrics import (
    CAPACITY_BLOCKS,
    CAPACITY_BYTES,
    EVICTED_BLOCKS,
    FAILED_BLOCKS,
    LOAD_SECONDS,
    LOOKUP_TOKENS,
    RESIDENT_BLOCKS,
    STORED_BLOCKS,
    USED_BYTES,
)
from tierscope.registry.transfer_metrics import (
    FAILED_TRANSFERS,
    STORE_SECONDS,
    TIER_LOAD_SECONDS,
    TRANSFERRED_BYTES,
)
from tierscope.registry.types import Metric

NAMED_BY = {Tier.L0: HOLDER_LABELS, Tier.L1: (*HOLDER_LABELS, "instance"), Tier.L2: HOLDER_LABELS}
"""Labels that tell a tier's holders apart: cache servers of one name are told apart by their exporter."""


def holders(tier: Tier) -> Mapping[str, Matcher]:
    """Matchers of a tier's holders: L0 of the engines chosen, L1 and L2 of every holder."""
    return {**(L0_HOLDER if tier is Tier.L0 else HERE), "tier": tier}


def evictions_by_reason(tier: Tier) -> str:
    """Blocks a second that left a tier."""
    return sum_by(rate(EVICTED_BLOCKS, holders(tier)), "reason")


def evicted_age(tier: Tier, share: float) -> str:
    """Seconds that this share of the blocks evicted for want of room did not stay longer than."""
    return quantile(share, bucket_rate(EVICTED_AGE, holders(tier)))


def wanted_again(tier: Tier, share: float) -> str:
    """Seconds within which this share of the blocks that a tier served again were wanted again."""
    return quantile(share, bucket_rate(REUSE_GAP, ENGINE, tier=tier))


def turnover_seconds(tier: Tier) -> str:
    """How long until as much as a tier holds has been evicted for want of room, if it goes on as now."""
    going = sum_by(rate(EVICTED_BLOCKS, holders(tier), reason=FOR_ROOM))
    return ratio(summed(RESIDENT_BLOCKS, tier), going)


def stored_blocks(tier: Tier) -> str:
    """Blocks a second stored in a tier."""
    return sum_by(rate(STORED_BLOCKS, holders(tier)))


def failed_blocks(tier: Tier) -> str:
    """Blocks a second that a tier could not take."""
    return sum_by(rate(FAILED_BLOCKS, holders(tier)))


def lookups(tier: Tier) -> str:
    """Tokens a second looked up in a tier, by result."""
    return sum_by(rate(LOOKUP_TOKENS, holders(tier)), "result")


def lookup_hit_ratio(tier: Tier) -> str:
    """Share of the tokens looked up in a tier that it had, whether or not a tier above had them too."""
    found = sum_by(rate(LOOKUP_TOKENS, holders(tier), result="hit"))
    return ratio(found, sum_by(rate(LOOKUP_TOKENS, holders(tier))))


def summed(metric: Metric, tier: Tier) -> str:
    """A reading of all holders of a tier together; a shared pool is taken once."""
    return f"sum({once(metric, tier)})"


def once(metric: Metric, tier: Tier) -> str:
    """A reading of a tier, one series a holder."""
    found = gauge(metric, holders(tier))
    return one_of("max", found, *HOLDER_LABELS) if tier is Tier.L2 else found


def fill_ratio(tier: Tier) -> str:
    """Share of a tier that is in use, one series a holder: GPU blocks in L0, bytes below it."""
    used, capacity = (RESIDENT_BLOCKS, CAPACITY_BLOCKS) if tier is Tier.L0 else (USED_BYTES, CAPACITY_BYTES)
    return f"{once(used, tier)} / {once(capacity, tier)}"


def mean_fill_ratio(tier: Tier) -> str:
    """How full a tier's holders are on average."""
    return f"avg({fill_ratio(tier)})"


def highest_fill_ratio(tier: Tier) -> str:
    """How full the fullest holder of a tier is."""
    return f"max({fill_ratio(tier)})"


def fullest(tier: Tier, most: int) -> str:
    """The fullest holders of a tier by name."""
    return f"topk({most}, max by ({', '.join(NAMED_BY[tier])}) ({fill_ratio(tier)}))"


def load_wait(tier: Tier, share: float) -> str:
    """Seconds that this share of the requests that loaded from a tier did not wait longer than."""
    return quantile(share, bucket_rate(LOAD_SECONDS, ENGINE, tier=tier))


def loads_per_second(tier: Tier) -> str:
    """Requests a second that waited for a load from a tier."""
    return sum_by(count_rate(LOAD_SECONDS, ENGINE, tier=tier))


def task_seconds(metric: Metric, tier: Tier, share: float) -> str:
    """Seconds that this share of a cache server's tasks at a tier did not take longer than."""
    return quantile(share, bucket_rate(metric, holders(tier)))


def load_task(tier: Tier, share: float) -> str:
    """Tasks that load from a tier."""
    return task_seconds(TIER_LOAD_SECONDS, tier, share)


def store_task(tier: Tier, share: float) -> str:
    """Tasks that store into a tier."""
    return task_seconds(STORE_SECONDS, tier, share)


def moved_bytes(tier: Tier) -> str:
    """Bytes a second that cache servers moved into a tier and out of it."""
    return sum_by(rate(TRANSFERRED_BYTES, holders(tier)), "action")


def failed_transfers(tier: Tier) -> str:
    """Objects a second that were to be moved and were not, by reason, where there are any."""
    return f"{sum_by(rate(FAILED_TRANSFERS, holders(tier)), 'action', 'reason')} > 0"


SOURCES: Mapping[Tier, AnyOf] = {
    Tier.L0: AnyOf("(vllm_metrics|vllm_events|vllm_hook):.*"),
    Tier.L1: AnyOf("(vllm_hook|lmcache_.*|managed_tier):.*"),
    Tier.L2: AnyOf("(vllm_hook|lmcache_.*|curvine_.*|pool_mount):.*"),
}
"""The sources that what is known of a tier rests on."""
