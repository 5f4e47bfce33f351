"""How requests and hits are spread over the replicas of an endpoint.

Hundreds of replicas are not hundreds of lines: what is drawn are the mean, the extremes and quantiles over
replicas, and single replicas only at either end.
"""

from __future__ import annotations

from dashboards.promql import (
    AnyOf,
    count_rate,
    gauge,
    one_of,
    rate,
    ratio,
    sum_by,
    sum_rate,
    where_any,
    without,
)
from dashboards.rules.recording import MISS_TOKEN_RATE, NEW_ENGINES, recorded
from dashboards.variables import ENDPOINT, ENGINE, OWNER, OWNER_LABELS
from tierscope.registry.advice_metrics import ROUTED_HIT_RATIO
from tierscope.registry.block_metrics import REUSE_GAP, UNASKED_TOKENS
from tierscope.registry.metrics import REQUEST_TOKENS, REQUESTS, TIME_TO_FIRST_TOKEN

REPLICA = (*OWNER_LABELS, "replica")
SERVED = "served"


def requests() -> str:
    """Requests a second that reached their first token, by replica."""
    return sum_by(rate(REQUESTS, ENGINE, status=SERVED), *REPLICA)


def computed_tokens() -> str:
    """Prompt tokens a second that were computed, by replica: what a replica has to work for."""
    return sum_by(rate(REQUEST_TOKENS, ENGINE, tier="computed"), *REPLICA)


def cached_ratio() -> str:
    """Share of the prompt tokens that were looked up and did not have to be computed, by replica."""
    every = sum_by(rate(REQUEST_TOKENS, ENGINE), *REPLICA)
    unasked = sum_by(rate(UNASKED_TOKENS, ENGINE), *REPLICA)
    return f"1 - {without(computed_tokens(), unasked)} / {where_any(without(every, unasked))}"


def mean_ttft() -> str:
    """Mean TTFT in seconds, by replica: quantiles of every replica would read every bucket of each."""
    return ratio(
        sum_by(sum_rate(TIME_TO_FIRST_TOKEN, ENGINE), *REPLICA),
        sum_by(count_rate(TIME_TO_FIRST_TOKEN, ENGINE), *REPLICA),
    )


def busiest_over_mean(by_replica: str) -> str:
    """How much more the busiest replica of an endpoint does than the mean of its replicas; 1 is balance."""
    return ratio(one_of("max", by_replica, *OWNER_LABELS), one_of("avg", by_replica, *OWNER_LABELS))


def across(operation: str, by_replica: str) -> str:
    """One number of all replicas: `max`, `avg` or `min`."""
    return f"{operation}({by_replica})"


def share_of_replicas(share: float, by_replica: str) -> str:
    """The value that this share of the replicas is not above."""
    return f"quantile({share:g}, {by_replica})"


def most(number: int, by_replica: str) -> str:
    """The replicas that have most of it."""
    return f"topk({number}, {by_replica})"


def least(number: int, by_replica: str) -> str:
    """The replicas that have least of it."""
    return f"bottomk({number}, {by_replica})"


def replicas_that_serve() -> str:
    """Replicas of an endpoint that serve requests."""
    return one_of("count", f"{requests()} > 0", *OWNER_LABELS)


def new_engines() -> str:
    """Engines of an endpoint that were not there half an hour ago."""
    return sum_by(recorded(NEW_ENGINES, ENDPOINT), *OWNER_LABELS)


def found_here_ratio() -> str:
    """Of the tokens that any cache served, the share that lay on the replica's own node: L0 and L1."""
    here = sum_by(rate(REQUEST_TOKENS, ENGINE, tier=AnyOf("l0|l1")))
    return ratio(here, sum_by(rate(REQUEST_TOKENS, ENGINE, tier=AnyOf("l0|l1|l2|external"))))


def hits_at(point: str) -> str:
    """Share of the prompt tokens that L0 and L1 had: `best`, `predicted` or `delivered`, by endpoint."""
    return one_of("max", gauge(ROUTED_HIT_RATIO, OWNER, point=point), *OWNER_LABELS)


def nowhere() -> str:
    """Share of the prompt tokens that no replica had in L0 or L1."""
    return f"1 - {hits_at('best')}"


def lost_by_pick() -> str:
    """Share that another replica had, beyond what the router took the chosen one to have."""
    return f"{hits_at('best')} - ({hits_at('predicted')} or {hits_at('delivered')})"


def lost_by_belief() -> str:
    """Share that the router took the chosen replica to have, and it had not; absent without a prediction."""
    return f"{hits_at('predicted')} - {hits_at('delivered')}"


def computed_for_routing() -> str:
    """Of the tokens that were computed, the share that another replica had."""
    return ratio(
        sum_by(recorded(MISS_TOKEN_RATE, OWNER, cause="routing"), *OWNER_LABELS),
        sum_by(recorded(MISS_TOKEN_RATE, OWNER), *OWNER_LABELS),
    )


def came_back() -> str:
    """Blocks a second asked for again on the replica that was asked for them before, by where they were."""
    return sum_by(count_rate(REUSE_GAP, ENGINE), "tier")


def by_status() -> str:
    """Admissions a second that did not end with a first token, by what became of them."""
    return sum_by(rate(REQUESTS, ENGINE, status=AnyOf("aborted|readmitted|unresolved")), "status")
