"""The recommendation: what an operator reads, as frozen types that are the JSON document.

Field order is the document's order. `None` becomes null and always means "not known", never zero.
Ratios are 0 to 1 and shares of prompt tokens; times are UTC.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from tierscope.advice.curves import Curve
from tierscope.advice.predictions import Estimate, Predicted
from tierscope.advice.widening import OutcomeSummary
from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier


class Status(StrEnum):
    """What the document says in one word."""

    RECOMMEND = "recommend"
    NO_CHANGE = "no_change"
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"


class FindingKind(StrEnum):
    """What a finding is about."""

    LOW_TRAFFIC = "low_traffic"
    """Too few requests to rest advice on."""
    INCOMPLETE_EVENTS = "incomplete_events"
    """A part of the records or events never arrived."""
    MODEL_DISAGREES = "model_disagrees"
    """At today's sizes the model hits otherwise than the tiers really did."""
    DRIFT = "drift"
    """The traffic changes, so its past says little of its future."""
    L2_NEVER_EVICTS = "l2_never_evicts"
    """The pool only grows; when it is full it refuses what is new."""
    L1_DROPS_LOADS = "l1_drops_loads"
    """L1 does not keep what it loads from L2, so a larger L1 serves less than its size suggests."""
    L2_SLOWER_THAN_RECOMPUTE = "l2_slower_than_recompute"
    """Loading a token from L2 takes longer than computing it, so hits there make TTFT worse."""
    OBJECTIVE_OUT_OF_REACH = "objective_out_of_reach"
    """No sizes that are allowed give the hit ratio, the TTFT or the cost that is asked for."""
    LIMIT_BELOW_TARGET = "limit_below_target"
    """The largest size allowed does not reach the hit ratio asked for."""
    L1_OVERCOMMITTED = "l1_overcommitted"
    """L1 may take more memory than its node has to give: the pod is evicted when it does."""
    HASH_SEED_MISMATCH = "hash_seed_mismatch"
    """Replicas hash the same prompt to different names, so none finds what another stored in L2."""
    ENGINE_HASH_SEED_MISMATCH = "engine_hash_seed_mismatch"
    """Engines name the same prompts differently: a router that looks blocks up finds nothing in common."""
    L2_NOT_WIRED = "l2_not_wired"
    """L2 is switched on, but the running pods have no address of it."""
    KVAWARE_BLIND = "kvaware_blind"
    """The router cannot see what the replicas hold on the path that requests take."""
    ROUTING_CONFLICT = "routing_conflict"
    """A gateway and a strategy are both switched on; only one of them routes."""
    ROUTING_ABSENT = "routing_absent"
    """Nothing looks at prompts when a replica is chosen."""
    ROUTING_COMPARED = "routing_compared"
    """What each routing policy would make of the recorded requests, and which cannot be used here."""
    MISS_CAUSES = "miss_causes"
    """Why the tokens of the window were computed, what that took, and how much room would have saved it."""
    ROUTING_LOSS = "routing_loss"
    """Another replica had more of the prompts than the one that was chosen."""
    PREFIXAWARE_MONOPOLY = "prefixaware_monopoly"
    """Most prompts begin alike, and `prefixaware` sends what begins alike to one replica."""


class ChangeKind(StrEnum):
    """What a change touches."""

    TIER_SIZE = "tier_size"
    ROUTING = "routing"
    REPLICAS = "replicas"
    INSTANCE_TYPE = "instance_type"
    CONFIG = "config"


class ApplyFormat(StrEnum):
    """How `Apply.document` is to be read."""

    JSON_PATCH = "json_patch"
    HELM_VALUES = "helm_values"
    ENV = "env"
    ARGUMENTS = "arguments"
    """Options of a command line and their values."""
    AWS_CLI = "aws_cli"
    GATEWAY_PATCH = "gateway_patch"
    """A JSON patch of the InferenceGatewayConfig, not of the endpoint."""
    COPY_PATCH = "copy_patch"
    """A JSON patch of a copy of the endpoint's resource under another name; the one in force stays."""


@dataclass(frozen=True, slots=True)
class Window:
    """The span of history the advice rests on."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing the advice would need more of."""

    what: str
    have: float | None
    need: float | None
    wait_seconds: float | None
    """How long it would take at the present rate; null where waiting does not help or cannot be told."""


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """What the advice rests on, and what it would need more of."""

    requests: int
    block_accesses: int
    completeness_ratio: float | None
    """Share of the record streams that was received and understood."""
    warm_ratio: float | None
    """Share of the advised sizes that the warm-up part had filled before measuring began, at most 1."""
    drift: bool | None
    """Whether the last part of the window behaves unlike the part before it."""
    holdout_mae: float | None
    """Mean error, in hit ratio, of predicting the window's second half from its first half."""
    routing_age_seconds: float | None
    """Age of the routing comparison; null where none was made."""
    missing: tuple[Missing, ...]
    outcomes: OutcomeSummary | None = None
    """What earlier advice came to, and how much wider intervals are for it; null where none was followed."""


@dataclass(frozen=True, slots=True)
class TierState:
    """One tier today. Sizes are of one holder: an engine's L0, a replica's L1, the whole L2 pool."""

    capacity_bytes: float | None
    used_bytes: float | None
    hit_ratio: float | None
    """Share of prompt tokens this tier served; null where the source does not tell tiers apart."""
    bytes_per_token: float | None


@dataclass(frozen=True, slots=True)
class Quantiles:
    """TTFT seen in the measured part of the window, in seconds."""

    p50: float | None
    p90: float | None


@dataclass(frozen=True, slots=True)
class Current:
    """The deployment in force and how it does."""

    namespace: str
    endpoint: str
    model: str
    routing: RoutingPolicy
    replicas: int
    tiers: Mapping[Tier, TierState]
    ttft: Quantiles
    cost_per_hour: Estimate | None
    """What it costs at the configured prices; null until they are."""
    currency: str | None
    """What costs are in."""


@dataclass(frozen=True, slots=True)
class Apply:
    """One step of applying a change."""

    what: str
    format: ApplyFormat
    document: JsonValue


@dataclass(frozen=True, slots=True)
class RevertIf:
    """A measurable reason to undo the change: `query` (PromQL) compared with `value` for `for_seconds`."""

    what: str
    query: str
    comparison: Literal["<", ">"]
    value: float
    for_seconds: float


@dataclass(frozen=True, slots=True)
class Change:
    """One recommended change."""

    id: str
    kind: ChangeKind
    target: str
    from_: Annotated[float | str | None, Field(alias="from")]
    to: float | str
    unit: str
    predicted: Predicted
    why: str
    risks: tuple[str, ...]
    apply: tuple[Apply, ...]
    revert_if: tuple[RevertIf, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know, with the numbers it rests on and what to do."""

    kind: FindingKind
    severity: Severity
    title: str
    evidence: str
    fix: str
    apply: tuple[Apply, ...] = ()
    """The fix as steps, where it is one that can be written down."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another choice, so that a person can choose otherwise.

    With prices and a TTFT model these are the front: none is beaten in both, each is dearer and faster than
    the one before it. Without, they are the sizes for other shares of the hit ratio.
    """

    target: float | None
    """The share of the hit ratio of unlimited sizes that it is for; null on the front."""
    capacity_bytes: Mapping[Tier, float]
    engine: Mapping[str, str]
    """Arguments of the engine that differ from today's."""
    hit_ratio: Estimate
    ttft_p50_seconds: Estimate | None
    ttft_p90_seconds: Estimate | None
    cost_per_hour: Estimate | None
    is_knee: bool
    """Whether it is the front's knee: beyond it, paying more gains ever less."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a tier will be full if it goes on growing as it did, with the ends of a 95 % interval."""

    tier: Tier
    holder: str
    """Name of the pool."""
    full_at: datetime
    earliest: datetime
    latest: datetime
    growth_bytes_per_hour: Estimate


@dataclass(frozen=True, slots=True)
class InstanceChoice:
    """An instance type, and what the endpoint would cost on it at the same TTFT with as many replicas."""

    instance_type: str
    is_current: bool
    ttft_target_seconds: float | None
    """The TTFT compared at: the objective's, or today's; null where neither is known."""
    meets_target: bool | None
    """Whether some sizes reach it there; null where that cannot be told."""
    capacity_bytes: Mapping[Tier, float]
    """The cheapest sizes that reach it, or the fastest if none do."""
    ttft_p50_seconds: Estimate | None
    ttft_p90_seconds: Estimate | None
    cost_per_hour: Estimate | None
    missing: tuple[str, ...]
    """Settings without which it cannot be compared."""


@dataclass(frozen=True, slots=True)
class RoutedHits:
    """What routing found in the replicas' L0 and L1, as shares of the prompt tokens of the newest requests.

    What no replica had is 1 - `best_ratio`; the pick lost `best_ratio` - `predicted_ratio`, a belief that no
    longer held `predicted_ratio` - `delivered_ratio`.
    """

    requests: int
    best_ratio: float
    """What the replica that had most had, by LRUs of today's sizes over what each was asked."""
    predicted_ratio: float | None
    """What the router took the chosen replica to have, its index modelled; null: it foretells nothing."""
    delivered_ratio: float
    """What L0 and L1 of the chosen replica served, as recorded."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Tierscope's advice for one inference endpoint."""

    status: Status
    generated_at: datetime
    window: Window
    evidence: EvidenceSummary
    current: Current
    changes: tuple[Change, ...]
    curves: Mapping[Tier, Curve]
    findings: tuple[Finding, ...]
    alternatives: tuple[Alternative, ...]
    forecasts: tuple[Forecast, ...] = ()
    """When tiers will be full; one that is not here does not grow, or not so that it can be told."""
    instances: tuple[InstanceChoice, ...] = ()
    """Instance types whose figures are configured, and those the endpoint may run on."""
    routed_hits: RoutedHits | None = None
    """How today's routing did; null with one replica, or where routers could not be compared."""

    def to_json(self) -> dict[str, JsonValue]:
        """The document as JSON values, ready for a response, a file or the store."""
        document: list[dict[str, JsonValue]] = document_adapter().dump_python(
            (self,), mode="json", by_alias=True
        )
        return document[0]


def parse_recommendation(document: Mapping[str, JsonValue]) -> Recommendation:
    """Read back what `to_json` wrote; raises `BadInput` naming the first field that is not right."""
    try:
        (found,) = document_adapter().validate_json(json.dumps([document]))
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(
            f"this is not a recommendation of this release: {first['msg']}",
            where=".".join(str(part) for part in first["loc"][1:]) or "the document",
            fix="use the release that wrote it, or print it with --json",
        ) from error
    return found


def utc(at_unix_seconds: float) -> datetime:
    """A unix time as the document writes it: UTC, whole milliseconds."""
    return datetime.fromtimestamp(round(at_unix_seconds, 3), UTC)


@functools.cache
def document_adapter() -> TypeAdapter[tuple[Recommendation]]:
    """What turns documents into JSON values and describes them."""
    # A tuple of one document: inside a tuple the configuration reaches every nested dataclass.
    return TypeAdapter(
        tuple[Recommendation],
        config=ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False),
    )
