"""The model of one deployment: who would have served each recorded request at any sizes of its tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tierscope.advice.history import History
from tierscope.advice.holders import own
from tierscope.advice.name_findings import caches_disagree
from tierscope.advice.readings import TierReading
from tierscope.advice.sizing.host_cache import filled_ratio, frees_in_rounds
from tierscope.advice.thresholds import MODEL_ALLOWANCE, SERVER_USABLE_RATIO, SLICES, TELLING_DIFFERENCE
from tierscope.advice.wiring_findings import hashes_differ
from tierscope.analytics.attribution import JointStreams, Stream, joint_streams, pass_through
from tierscope.domain.deployment import Deployment
from tierscope.domain.split import Split, split_tokens, whole_blocks_below
from tierscope.domain.tiers import Tier
from tierscope.domain.trace import Int64Array
from tierscope.domain.window import Evidence, RequestWindow

Sizes = Mapping[Tier, float]
"""Bytes of one holder of each sized tier; a tier that is absent serves nothing."""

UNLIMITED_BYTES = 1e30


@dataclass(frozen=True, slots=True)
class Study:
    """Recorded requests with everything needed to replay them; `l0_tokens` (n,) is what L0 gives.

    `l1_keeps_loads` tells which of two L1s is modelled, `l1_is_known` whether that is configured or seen in
    the records (or makes no difference); `l1_usable_ratio` is the share of its memory that holds chunks,
    `l1_frees_in_rounds` whether readings show that it has just dropped some of them now and then.
    Where `names_differ`, what replicas wrote to L2 is not common to them, as it is in the model.
    """

    window: RequestWindow
    deployment: Deployment
    readings: Mapping[Tier, TierReading]
    streams: JointStreams
    history: History
    l0_tokens: Int64Array
    l1_keeps_loads: bool = True
    l1_is_known: bool = True
    l1_usable_ratio: float = 1.0
    l1_frees_in_rounds: bool = False
    names_differ: bool = False

    def stream(self, tier: Tier) -> Stream:
        """The reference stream of a tier."""
        l1 = self.streams.l1 if self.l1_keeps_loads else self.streams.l1_own
        return {Tier.L0: self.streams.l0, Tier.L1: l1, Tier.L2: self.streams.l2}[tier]

    def bytes_per_unit(self, tier: Tier) -> float:
        """Bytes of capacity for one block (L0) or chunk (L1, L2); the reading must know bytes a token."""
        per_token = self.readings[tier].bytes_per_token
        assert per_token is not None
        usable = self.l1_usable_ratio if tier is Tier.L1 else 1.0
        return per_token * self.stream(tier).unit_tokens / usable

    def units(self, tier: Tier, size_bytes: float) -> int:
        """Whole blocks or chunks that a holder of a size can have; at least one, as no cache holds less."""
        return max(int(size_bytes // self.bytes_per_unit(tier)), 1)

    def sizes_today(self) -> dict[Tier, float]:
        """Configured bytes of one holder of L1 and L2, as far as the deployment has them."""
        configs = {tier: self.deployment.tier(tier) for tier in (Tier.L1, Tier.L2)}
        return {tier: config.capacity_bytes for tier, config in configs.items() if config is not None}

    def depth_tokens(self, tier: Tier, size_bytes: float) -> Int64Array:
        """Tokens of each request that L1 or L2 of a size would have had: (n,)."""
        stream = self.stream(tier)
        most = int(stream.footprint_units().max(initial=0))
        units = min(self.units(tier, size_bytes), most) if most else 1
        return stream.hit_tokens(np.array([units], dtype=np.int64))[:, 0]

    def split(self, sizes: Sizes) -> Split:
        """Tokens of each request by serving tier at some sizes."""
        nothing = np.zeros_like(self.streams.prompt)
        l1, l2 = (
            self.depth_tokens(tier, sizes[tier]) if tier in sizes else nothing for tier in (Tier.L1, Tier.L2)
        )
        return split_tokens(self.streams.prompt, self.l0_tokens, l1, l2)

    def l1_share(self, size_bytes: float | None = None) -> float:
        """Modelled share of measured prompt tokens that L1 serves, today or at a size."""
        sizes = self.sizes_today()
        split = self.split(sizes if size_bytes is None else {**sizes, Tier.L1: size_bytes})
        first = self.history.first_measured
        return float(split.l1[first:].sum() / max(int(self.window.prompt[first:].sum()), 1))

    def restarted(self, l0_blocks: int, bytes_ratio: float) -> Study:
        """The same study on engines with another L0, whose tokens take `bytes_ratio` of today's bytes."""
        readings = {
            tier: reading._replace(
                bytes_per_token=None
                if reading.bytes_per_token is None
                else reading.bytes_per_token * bytes_ratio
            )
            for tier, reading in self.readings.items()
        }
        return replace(self, readings=readings, l0_tokens=self.l0_depth(l0_blocks))

    def l0_depth(self, blocks: int) -> Int64Array:
        """Tokens of each request that an L0 of so many blocks would have had, never the last one: (n,)."""
        depth = self.streams.l0.hit_tokens(np.array([blocks], dtype=np.int64))[:, 0]
        return whole_blocks_below(self.window.prompt, depth, self.window.block_tokens)

    def with_observed_l0(self) -> Study:
        """The same study resting on the L0 hits that were recorded instead of modelled."""
        return replace(self, l0_tokens=self.window.l0)


def study_of(
    evidence: Evidence, deployment: Deployment, readings: Mapping[Tier, TierReading], chunk_tokens: int
) -> Study:
    """Prepare a window for replay; L0 is as recorded where its size is not known."""
    window = evidence.window
    streams = joint_streams(window, chunk_tokens)
    reading = readings.get(Tier.L0)
    study = Study(window, deployment, readings, streams, History(window.prompt), window.l0)
    sized = [tier for tier in (Tier.L1, Tier.L2) if deployment.tier(tier) is not None]
    pass_through(study.stream(tier) for tier in (Tier.L0, *sized))
    differ = hashes_differ(deployment) or caches_disagree(evidence.beginnings)
    study = replace(study, names_differ=differ)
    if reading is not None and reading.capacity_tokens is not None:
        blocks = max(int(reading.capacity_tokens // window.block_tokens), 1)
        study = replace(study, l0_tokens=study.l0_depth(blocks))
    return study if deployment.tier(Tier.L1) is None else _with_l1_as_it_is(study, evidence)


def _with_l1_as_it_is(study: Study, evidence: Evidence) -> Study:
    """Settle which L1 the records come from: one that keeps what it loads from L2, or one that drops it.

    In-process LMCache, which does not tell its tiers apart, keeps it. Where neither configuration nor
    records decide, the nearer one is taken and said not to be known.
    """
    window, first = study.window, study.history.first_measured
    keeps = _with_usable_ratio(study, evidence)
    configured = study.deployment.l1_keeps_loads
    if configured or study.deployment.tier(Tier.L2) is None or window.external.any():
        return keeps
    drops = _with_usable_ratio(replace(study, l1_keeps_loads=False), evidence)
    if configured is False:
        return drops
    kept, dropped = keeps.l1_share(), drops.l1_share()
    observed = int(window.l1[first:].sum()) / max(int(window.prompt[first:].sum()), 1)
    nearer = keeps if abs(kept - observed) <= abs(dropped - observed) else drops
    told = abs(kept - dropped) >= TELLING_DIFFERENCE
    matters = keeps.l1_share(UNLIMITED_BYTES) - drops.l1_share(UNLIMITED_BYTES) > MODEL_ALLOWANCE
    return replace(nearer, l1_is_known=told or not matters)


def _with_usable_ratio(study: Study, evidence: Evidence) -> Study:
    """Take from L1's own readings what it really holds, from when it had to evict.

    A server that reports its fill but never had to evict is taken to behave as its defaults make it; so is
    one that cannot be told from others'.
    """
    known = own(evidence)
    if not any(sample.tier is Tier.L1 and sample.used_bytes is not None for sample in known.samples):
        return study
    first = _first_evicting(study)
    since = float("inf") if first is None else float(study.window.at_unix_seconds[first])
    ratio = filled_ratio(known.agreed, since)
    return replace(
        study,
        l1_usable_ratio=SERVER_USABLE_RATIO if ratio is None else ratio,
        l1_frees_in_rounds=frees_in_rounds(known.agreed, since),
    )


def _first_evicting(study: Study) -> int | None:
    """Index of about the first request by which every L1 was asked for more than it has room for."""
    stream, n = study.stream(Tier.L1), study.window.requests
    room = study.units(Tier.L1, study.sizes_today()[Tier.L1])
    for last in np.linspace(0, n, SLICES + 1).astype(np.int64)[1:-1].tolist():
        if stream.footprint_units(last).min() >= room:
            return int(last)
    return None
