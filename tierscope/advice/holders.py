"""Whose readings are whose: a store has those of every cache server and every pool, whoever's they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tierscope.advice.thresholds import FEWEST_TELLING_CHUNKS, POOL_SIZE_DIFFERENCE, SERVERS_DIFFERENCE
from tierscope.domain.deployment import Deployment
from tierscope.domain.events import TierSample
from tierscope.domain.identity import EngineId
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence


class Own(NamedTuple):
    """What an endpoint's own tiers say.

    `unclear` are the L1s among them of which nothing says whose they are: there are none where the requests
    name their cache servers, or the endpoint's own pods tell what their L1 holds.
    """

    samples: tuple[TierSample, ...]
    unclear: frozenset[str] = frozenset()

    @property
    def agreed(self) -> tuple[TierSample, ...]:
        """The same without L1s of which nothing says whose they are, if they are not of one kind.

        Two models' servers are told by what a token takes in them: whose figures are this endpoint's is then
        not known, and what lies between them is nobody's.
        """
        if not self.unclear or not _differ(self._unclear_l1s()):
            return self.samples
        return tuple(one for one in self.samples if one.tier is not Tier.L1 or one.holder not in self.unclear)

    def chunk_tokens(self) -> int | None:
        """Tokens of a chunk by the readings; None where L1s of which nothing says whose they are differ."""
        if len({one.block_tokens for one in self._unclear_l1s() if one.block_tokens}) > 1:
            return None
        found = latest(self.samples)
        told = (one.block_tokens for tier in (Tier.L1, Tier.L2) for one in found.get(tier, ()))
        return next((size for size in told if size), None)

    def _unclear_l1s(self) -> tuple[TierSample, ...]:
        return tuple(one for one in latest(self.samples).get(Tier.L1, ()) if one.holder in self.unclear)


def own(evidence: Evidence) -> Own:
    """Leave out readings of other endpoints' engines, and of cache servers that none of the requests asked.

    A request names the server it asked as the server's readings do. LMCache inside a pod has the pod's name
    where pods are found by themselves, and an engine's own view of the tiers below it has the engine's.
    """
    servers = {beginning.server for beginning in evidence.beginnings}
    engines = evidence.window.engines
    inside = {str(one) for one in engines} | {f"{one.namespace}/{one.replica}" for one in engines}
    of_endpoint = {(one.namespace, one.endpoint) for one in engines}
    below = {one.holder for one in evidence.samples if one.tier in (Tier.L1, Tier.L2)}
    foreign = {holder for holder in below if of_endpoint and _of_another(holder, of_endpoint)}
    l1s = [one for one in evidence.samples if one.tier is Tier.L1 and one.holder not in foreign]
    unclear = {one.holder for one in l1s} - servers - inside
    told = any(one.holder in inside and _tells_bytes(one) for one in l1s)
    if servers or told:
        return Own(tuple(one for one in evidence.samples if not _is_of(one, foreign, unclear)))
    return Own(tuple(one for one in evidence.samples if not _is_of(one, foreign, ())), frozenset(unclear))


def own_pools(samples: Iterable[TierSample], deployment: Deployment) -> tuple[TierSample, ...]:
    """Leave out readings of pools that are not the deployment's: of several, those of another size than its.

    Where none has its size, all stay.
    """
    samples = tuple(samples)
    pools = {one.holder: one.capacity_bytes for one in latest(samples).get(Tier.L2, ()) if _tells_bytes(one)}
    config = deployment.tier(Tier.L2)
    if len(pools) < 2 or config is None:
        return samples
    size = config.capacity_bytes
    others = {
        holder
        for holder, capacity in pools.items()
        if capacity is None or abs(capacity - size) > POOL_SIZE_DIFFERENCE * size
    }
    if len(others) == len(pools):
        return samples
    return tuple(one for one in samples if one.tier is not Tier.L2 or one.holder not in others)


def latest(samples: Iterable[TierSample]) -> dict[Tier, tuple[TierSample, ...]]:
    """The newest sample of every holder, by tier."""
    newest: dict[tuple[Tier, str], TierSample] = {}
    for sample in samples:
        key = (sample.tier, sample.holder)
        if key not in newest or newest[key].at_unix_seconds <= sample.at_unix_seconds:
            newest[key] = sample
    return {
        tier: found
        for tier in Tier
        if (found := tuple(sample for (of, _), sample in newest.items() if of is tier))
    }


def bytes_per_token(samples: Iterable[TierSample], fewest_blocks: int = 1) -> float | None:
    """Bytes over tokens, both summed over holders: what is used where known, else what there is room for."""
    for used in (True, False):
        held_bytes = tokens = 0.0
        for sample in samples:
            size = sample.used_bytes if used else sample.capacity_bytes
            blocks = sample.used_blocks if used else sample.capacity_blocks
            if size and blocks and blocks >= fewest_blocks and sample.block_tokens:
                held_bytes += size
                tokens += blocks * sample.block_tokens
        if tokens:
            return held_bytes / tokens
    return None


def _differ(samples: Sequence[TierSample]) -> bool:
    """Whether a token takes clearly more in one of them than in another."""
    each = (bytes_per_token((one,), FEWEST_TELLING_CHUNKS) for one in samples)
    told = [value for value in each if value is not None]
    return bool(told) and max(told) > (1 + SERVERS_DIFFERENCE) * min(told)


def _is_of(sample: TierSample, foreign: Iterable[str], l1s: Iterable[str]) -> bool:
    if sample.tier is Tier.L1 and sample.holder in l1s:
        return True
    return sample.tier is not Tier.L0 and sample.holder in foreign


def _of_another(holder: str, of_endpoint: set[tuple[str, str]]) -> bool:
    """Whether a holder is an engine, and of another endpoint."""
    try:
        engine = EngineId.parse(holder)
    except ValueError:
        return False
    return (engine.namespace, engine.endpoint) not in of_endpoint


def _tells_bytes(sample: TierSample) -> bool:
    return sample.used_bytes is not None or sample.capacity_bytes is not None
