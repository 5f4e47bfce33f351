"""Which combination of sizes serves the owner's objective best, and whether it is worth a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tierscope.advice.sizing.cost import missing_prices
from tierscope.advice.sizing.engine import AS_IT_IS, EngineStart
from tierscope.advice.sizing.joint import Candidate, Joint, size_grid
from tierscope.advice.sizing.one_tier import SizingTask, round_up_bytes
from tierscope.advice.thresholds import (
    COMBINED_SIZES,
    SMALLEST_SAVING,
    SMALLEST_TTFT_GAIN,
    TTFT_TIE,
    ZOOMED_SIZES,
    ZOOMS,
)
from tierscope.domain.deployment import Deployment, Objective, ObjectiveKind
from tierscope.domain.tiers import Tier

Key = Callable[[Candidate], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the objective asks for. `grid` are today's combination and those first looked at.

    `chosen` is today's combination where nothing is worth a change, None where no combination does what is
    asked; `nearest` is the one that comes nearest to it.
    """

    grid: tuple[Candidate, ...]
    chosen: Candidate | None
    nearest: Candidate

    @property
    def today(self) -> Candidate:
        """The combination in force."""
        return self.grid[0]


def lacking(deployment: Deployment, ttft: object) -> Iterable[str]:
    """Yield what the objective cannot do without and does not have, in words."""
    kind = deployment.objective.kind
    if kind in {ObjectiveKind.LOWEST_TTFT, ObjectiveKind.LOWEST_COST}:
        if isinstance(ttft, str):
            yield f"a model of TTFT: {ttft}"
        for price in missing_prices(deployment):
            yield f"a price: {price}"


def choose(joint: Joint, tasks: Mapping[Tier, SizingTask], starts: Sequence[EngineStart]) -> Choice:
    """Look at a grid of combinations, then closer around the best one."""
    objective = joint.study.deployment.objective
    now = {tier: task.current_bytes for tier, task in tasks.items()}
    [today] = joint.evaluate([AS_IT_IS], {tier: [size] for tier, size in now.items()})
    found = [today, *joint.evaluate(starts, {tier: _grid(task) for tier, task in tasks.items()})]
    grid = tuple(found)
    if not _fits(tasks):
        found = found[1:]
    best = _best(objective, found)
    if best is None:
        return Choice(grid, None, min(found, key=_shortfall(objective)))
    for _ in range(ZOOMS):
        near = {tier: _near(best, tier, found, task) for tier, task in tasks.items()}
        found += joint.evaluate([best.start], near)
        best = _best(objective, found) or best
    best = _with_what_may_stay(joint, objective, best, tasks)
    keeps = _fits(tasks) and _serves(objective, today) and not _is_worth_it(objective, today, best)
    return Choice(grid, today if keeps else best, best)


def _fits(tasks: Mapping[Tier, SizingTask]) -> bool:
    """Whether today's sizes are within what is allowed."""
    return all(task.limit_bytes is None or task.current_bytes <= task.limit_bytes for task in tasks.values())


def _serves(objective: Objective, one: Candidate) -> bool:
    """Whether a combination does what is asked."""
    if objective.kind is ObjectiveKind.LOWEST_COST:
        return one.ttft_seconds is not None and one.ttft_seconds <= objective.target
    if objective.kind is ObjectiveKind.LOWEST_TTFT:
        return one.ttft_seconds is not None and one.cost is not None and one.cost <= objective.target
    return one.hit_ratio >= objective.target


def _price(one: Candidate) -> tuple[float, ...]:
    """The dearer in what follows sizes first, then what holds more bytes, then what restarts differently."""
    return (one.sized_cost, one.held_bytes, len(one.start.arguments))


def _best(objective: Objective, found: Sequence[Candidate]) -> Candidate | None:
    serving = [one for one in found if _serves(objective, one)]
    if not serving:
        return None
    if objective.kind is ObjectiveKind.LOWEST_TTFT:
        fastest = min(one.ttft_seconds or 0.0 for one in serving)
        serving = [one for one in serving if (one.ttft_seconds or 0.0) <= (1 + TTFT_TIE) * fastest]
    return min(serving, key=_price)


def _shortfall(objective: Objective) -> Key:
    """How far a combination is from what is asked."""
    endless = float("inf")
    if objective.kind is ObjectiveKind.LOWEST_COST:
        return lambda one: (endless if one.ttft_seconds is None else one.ttft_seconds, *_price(one))
    if objective.kind is ObjectiveKind.LOWEST_TTFT:
        return lambda one: (endless if one.cost is None else one.cost, *_price(one))
    return lambda one: (-one.hit_ratio, *_price(one))


def _is_worth_it(objective: Objective, today: Candidate, then: Candidate) -> bool:
    """Whether what is gained is worth a restart: a tenth of what sizes cost, or a TTFT that is felt."""
    cost, held, _ = _price(then)
    before, held_before, _ = _price(today)
    saved = 1 - (cost / before if before else held / held_before if held_before else 1.0)
    if objective.kind is not ObjectiveKind.LOWEST_TTFT:
        return saved >= SMALLEST_SAVING
    faster = 1 - (then.ttft_seconds or 0.0) / (today.ttft_seconds or 1.0)
    return faster >= SMALLEST_TTFT_GAIN or saved >= SMALLEST_SAVING


def _with_what_may_stay(
    joint: Joint, objective: Objective, best: Candidate, tasks: Mapping[Tier, SizingTask]
) -> Candidate:
    """Leave a tier at its size where that does what is asked just as well."""
    for tier, task in tasks.items():
        size = task.current_bytes
        if best.sizes[tier] == size or not _fits({tier: task}):
            continue
        grids = {one: [size if one is tier else other] for one, other in best.sizes.items()}
        [kept] = joint.evaluate([best.start], grids)
        if _serves(objective, kept) and not _is_worth_it(objective, kept, best):
            best = kept
    return best


def _grid(task: SizingTask) -> list[float]:
    least, most = _ends(task)
    return [
        size if size == task.current_bytes else min(round_up_bytes(size), most)
        for size in size_grid(least, most, COMBINED_SIZES, (task.current_bytes,))
    ]


def _ends(task: SizingTask) -> tuple[float, float]:
    """The least size, and the largest that is of use and allowed."""
    held = float(task.stream.footprint_units().max(initial=1)) * task.bytes_per_unit
    most = max(held, task.least_bytes)
    if task.limit_bytes is not None:
        most = min(most, task.limit_bytes)
    return min(task.least_units * task.bytes_per_unit, most), most


def _near(best: Candidate, tier: Tier, found: Sequence[Candidate], task: SizingTask) -> list[float]:
    """Sizes between the neighbours in the grid of the best one's."""
    known = sorted({one.sizes[tier] for one in found})
    place = known.index(best.sizes[tier])
    low, high = known[max(place - 1, 0)], known[min(place + 1, len(known) - 1)]
    most = _ends(task)[1]
    steps = size_grid(low, high, ZOOMED_SIZES, (best.sizes[tier],))
    return [size if size in known else min(round_up_bytes(size), max(most, low)) for size in steps]
