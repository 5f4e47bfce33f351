"""What the owner asks for: where it weighs tiers against each other, one joint choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tierscope.advice.document import Finding, FindingKind, Missing
from tierscope.advice.outcome import Outlook, aim_text
from tierscope.advice.selfcheck import SelfCheck
from tierscope.advice.sizing.choice import Choice, choose, lacking
from tierscope.advice.sizing.engine import AS_IT_IS, EngineStart, starts
from tierscope.advice.sizing.joint import Candidate, joint_of
from tierscope.advice.sizing.one_tier import TierSizing, Verdict, filled_share, size_curve
from tierscope.advice.study import Sizes
from tierscope.advice.thresholds import MODEL_ALLOWANCE
from tierscope.domain.deployment import ObjectiveKind
from tierscope.domain.prices import Prices
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.units import format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class Aim:
    """What the objective came to. `choice` is None where combinations were not looked at.

    `lacks` are what the objective cannot do without and does not have.
    """

    sizings: Mapping[Tier, TierSizing]
    choice: Choice | None = None
    start: EngineStart = AS_IT_IS
    lacks: tuple[str, ...] = ()

    def missing(self) -> Iterator[Missing]:
        """Yield what is missing as the document has it: none of it comes by waiting."""
        for what in self.lacks:
            yield Missing(what, None, None, None)


def aimed(outlook: Outlook, *, pool_pays: bool, sizes_are_known: bool) -> Aim:
    """Look at combinations of sizes where the objective weighs them, or where prices make a front of them.

    For a share of the hit ratio the sizes stay as they were found, one tier after the other. Nothing is
    chosen where the records do not carry a size of every tier (`sizes_are_known`).
    """
    study, sizings = outlook.study, outlook.sizings
    objective = study.deployment.objective
    weighs = objective.kind is not ObjectiveKind.HIT_RATIO_SHARE
    lacks = tuple(lacking(study.deployment, outlook.ttft))
    if weighs and any(outlook.check.widening(tier) for tier in sizings):
        lacks += (f"modelled hits within {MODEL_ALLOWANCE:.0%} of the observed ones, to weigh tiers by",)
    if not sizes_are_known or lacks or not (weighs or objective.prices):
        return Aim(_as_they_are(outlook) if weighs else sizings, lacks=lacks)
    l0_is_trusted = _trusts_l0(outlook.check)
    joint = joint_of(study, outlook.today, outlook.ttft, objective.ttft.share)
    tasks = {tier: sizing.task for tier, sizing in sizings.items()}
    choice = choose(joint, tasks, list(starts(study, l0_is_trusted=l0_is_trusted and weighs)))
    if not weighs:
        return Aim(sizings, choice)
    chosen = choice.chosen
    if chosen is None or chosen is choice.today:
        return Aim(_as_they_are(outlook), choice)
    if not pool_pays and chosen.sizes.get(Tier.L2, 0.0) > choice.today.sizes.get(Tier.L2, 0.0):
        chosen = replace(chosen, sizes={**chosen.sizes, Tier.L2: choice.today.sizes[Tier.L2]})
    return Aim(_resized(outlook, sizings, chosen.sizes, chosen.start), choice, chosen.start)


def aim_findings(outlook: Outlook, aim: Aim) -> Iterator[Finding]:
    """An objective that no size allowed reaches, with the nearest that one does."""
    choice, objective = aim.choice, outlook.study.deployment.objective
    weighs = objective.kind is not ObjectiveKind.HIT_RATIO_SHARE
    if choice is None or choice.chosen is not None or not weighs:
        return
    near = choice.nearest
    sizes = ", ".join(f"{tier.value.upper()} {format_bytes(size)}" for tier, size in near.sizes.items())
    yield Finding(
        FindingKind.OBJECTIVE_OUT_OF_REACH,
        Severity.WARNING,
        "No sizes that are allowed do what is asked for",
        f"{aim_text(objective)} The nearest is {sizes}: {_what_it_does(near, objective.prices)}.",
        "raise limit_bytes, allow more in objective.engine, run more replicas, or ask for less",
    )


def _what_it_does(one: Candidate, prices: Prices | None) -> str:
    parts = [f"a hit ratio of about {one.hit_ratio:.1%}"]
    if one.ttft_seconds is not None:
        parts.append(f"a TTFT of about {format_seconds(one.ttft_seconds)}")
    if one.cost is not None and prices is not None:
        parts.append(f"{one.cost:.4g} {prices.currency} an hour")
    return ", ".join(parts)


def _trusts_l0(check: SelfCheck) -> bool:
    """Whether the modelled L0 is as near to what was seen as is asked of it when its own size changes."""
    return check.deciding(Tier.L0) <= MODEL_ALLOWANCE


def _as_they_are(outlook: Outlook) -> dict[Tier, TierSizing]:
    return _resized(outlook, outlook.sizings, outlook.study.sizes_today())


def _resized(
    outlook: Outlook, sizings: Mapping[Tier, TierSizing], sizes: Sizes, start: EngineStart = AS_IT_IS
) -> dict[Tier, TierSizing]:
    """The sizings with other sizes chosen, each tier's curve over what the tiers above it then are."""
    study, found = start.of(outlook.study), dict[Tier, TierSizing]()
    base = study.l0_tokens
    for tier, sizing in sizings.items():
        size, now = sizes[tier], sizing.task.current_bytes
        task = replace(sizing.task, base=base, bytes_per_unit=study.bytes_per_unit(tier))
        units = np.unique([*sizing.curve.capacities_units, task.units(now), task.units(size)])
        verdict = Verdict.KEEP if size == now else Verdict.GROW if size > now else Verdict.SHRINK
        found[tier] = replace(
            sizing,
            task=task,
            curve=size_curve(task, study.history, units),
            chosen_bytes=size,
            verdict=verdict,
            floored=False,
            limited=False,
            warm_ratio=filled_share(task.stream, study.history, task.units(size)),
        )
        base = study.history.over(base, study.depth_tokens(tier, size))
    return found
