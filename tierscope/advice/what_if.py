"""What another configuration of the tiers would have done with the recorded requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tierscope.advice.document import Missing
from tierscope.advice.outcome import Outlook
from tierscope.advice.predictions import Predicted
from tierscope.advice.readiness import missing_before_modelling
from tierscope.advice.readings import TierReading, chunk_tokens, completeness_ratio, read_tiers
from tierscope.advice.selfcheck import check_model
from tierscope.advice.sizing.cost import cost_per_hour
from tierscope.advice.sizing.latency import ttft_model
from tierscope.advice.study import Study, study_of
from tierscope.domain.deployment import Deployment, TierConfig
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence

Stop = Callable[[], bool]


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What some sizes would give; `today` by the same model, so that the two can be compared."""

    sizes_bytes: Mapping[Tier, float]
    """Sizes that were asked for, of one holder each; tiers that are not named keep theirs."""
    today: Predicted | None
    predicted: Predicted | None
    """Null where the evidence does not carry a prediction; see `missing`."""
    model_disagrees: bool
    """Whether the model misses what the tiers really did today by more than we allow it."""
    missing: tuple[Missing, ...]


def what_if(
    evidence: Evidence, deployment: Deployment, sizes_bytes: Mapping[Tier, float], stop: Stop = lambda: False
) -> WhatIf:
    """Predict the tiers' shares and TTFT at other sizes; raises `Abandoned` once `stop` says so.

    A size of 0 takes the tier away. Pure; abstains like advice does where evidence is short or incomplete.
    """
    wanted = _with_new_tiers(deployment, sizes_bytes)
    readings = read_tiers(evidence, wanted)
    chunk = chunk_tokens(evidence)
    missing = tuple(
        missing_before_modelling(
            evidence.window, wanted, readings, chunk, completeness_ratio(evidence.coverage)
        )
    )
    if missing or chunk is None:
        return WhatIf(sizes_bytes, None, None, model_disagrees=False, missing=missing)
    _go_on(stop)
    study = study_of(evidence, deployment, readings, chunk)
    _go_on(stop)
    today = study.split(study.sizes_today())
    check = check_model(study.window, study.history.first_measured, today)
    ttft = ttft_model(study.window, study.history.first_measured)
    outlook = Outlook(study, today, {}, check, 0.0, ttft)
    _go_on(stop)
    then = study if Tier.L0 not in sizes_bytes else _with_l0(study, evidence, sizes_bytes[Tier.L0], chunk)
    lower = study.sizes_today()
    lower.update((tier, size) for tier, size in sizes_bytes.items() if tier is not Tier.L0)
    sizes = {tier: size for tier, size in lower.items() if size > 0}
    return WhatIf(
        sizes_bytes,
        _predicted(outlook, study, study.sizes_today()),
        _predicted(replace(outlook, study=then), then, sizes),
        model_disagrees=bool(check.beyond_allowance),
        missing=(),
    )


def _with_new_tiers(deployment: Deployment, sizes_bytes: Mapping[Tier, float]) -> Deployment:
    """The deployment with the tiers that are asked for and that it does not have, so that they are read."""
    new = (
        TierConfig(tier, size)
        for tier, size in sizes_bytes.items()
        if tier is not Tier.L0 and size > 0 and deployment.tier(tier) is None
    )
    return replace(deployment, tiers=(*deployment.tiers, *new))


def _predicted(outlook: Outlook, study: Study, sizes: Mapping[Tier, float]) -> Predicted:
    return outlook.predicted(study.split(sizes), cost_per_hour(study.deployment, sizes))


def _with_l0(study: Study, evidence: Evidence, size_bytes: float, chunk: int) -> Study:
    """The same study with another L0; it stays as it is where bytes of its blocks are not known."""
    reading = study.readings.get(Tier.L0)
    if reading is None or not reading.bytes_per_token:
        return study
    tokens = size_bytes / reading.bytes_per_token
    changed = TierReading(size_bytes, reading.used_bytes, reading.bytes_per_token, tokens)
    return study_of(evidence, study.deployment, {**study.readings, Tier.L0: changed}, chunk)


def _go_on(stop: Stop) -> None:
    if stop():
        raise Abandoned
