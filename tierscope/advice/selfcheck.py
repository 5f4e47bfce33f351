"""Does the model describe the deployment: modelled against observed hits at today's sizes, tier by tier."""

from __future__ import annotations

from typing import NamedTuple

from tierscope.advice.thresholds import MODEL_ALLOWANCE, MODEL_LARGEST_DISAGREEMENT
from tierscope.domain.split import Split
from tierscope.domain.tiers import Tier
from tierscope.domain.window import RequestWindow


class Disagreement(NamedTuple):
    """Modelled and observed share of prompt tokens that some tiers served together."""

    tiers: str
    modelled: float
    observed: float

    @property
    def ratio(self) -> float:
        """How far they differ, in share of prompt tokens."""
        return abs(self.modelled - self.observed)


class SelfCheck(NamedTuple):
    """Every comparison made at today's sizes over the measured part of a window."""

    compared: tuple[Disagreement, ...]

    @property
    def beyond_allowance(self) -> tuple[Disagreement, ...]:
        """Comparisons that differ by more than is explained by what the model leaves out."""
        return tuple(found for found in self.compared if found.ratio > MODEL_ALLOWANCE)

    def deciding(self, tier: Tier) -> float:
        """The disagreement that bears on sizing a tier: of what it and the tiers above serve together."""
        by_tiers = {found.tiers: found.ratio for found in self.compared}
        wanted = {Tier.L0: "l0", Tier.L1: "l0+l1", Tier.L2: "l0+l1+l2"}[tier]
        return by_tiers.get(wanted, by_tiers["l0+l1+l2"])

    def trusts(self, tier: Tier) -> bool:
        """Whether the model is near enough to size this tier by."""
        return self.deciding(tier) <= MODEL_LARGEST_DISAGREEMENT

    def widening(self, tier: Tier) -> float:
        """What intervals about this tier grow by on both sides: the disagreement, once beyond allowance."""
        ratio = self.deciding(tier)
        return ratio if ratio > MODEL_ALLOWANCE else 0.0


def check_model(window: RequestWindow, first: int, modelled: Split) -> SelfCheck:
    """Compare shares over requests `first`.. of a window.

    Where any token came through a connector whose tier is not known, L1 and L2 are compared as one.
    """
    total = max(int(window.prompt[first:].sum()), 1)
    l0, l1, l2 = (int(part[first:].sum()) / total for part in (window.l0, window.l1, window.l2))
    unknown = int(window.external[first:].sum()) / total
    m0, m1, m2 = (int(part[first:].sum()) / total for part in (modelled.l0, modelled.l1, modelled.l2))
    compared = [Disagreement("l0", m0, l0)]
    if unknown == 0:
        compared += [
            Disagreement("l1", m1, l1),
            Disagreement("l2", m2, l2),
            Disagreement("l0+l1", m0 + m1, l0 + l1),
        ]
    compared.append(Disagreement("l0+l1+l2", m0 + m1 + m2, l0 + l1 + l2 + unknown))
    return SelfCheck(tuple(compared))
