"""Whether the router spreads load and brings prompts to where their prefix is."""

from __future__ import annotations

from dashboards.annotations import regression_annotation
from dashboards.boards.empty import NO_CAUSES, NO_REQUESTS, NO_ROUTERS
from dashboards.layout import Section, board
from dashboards.panels import (
    BLOCKS_PER_SECOND,
    COUNT,
    RATIO,
    REQUESTS_PER_SECOND,
    SECONDS,
    TIMES,
    TOKENS_PER_SECOND,
    Panel,
    Query,
    Question,
    lines,
    number,
)
from dashboards.queries import routing, tokens
from tierscope.registry.advice_metrics import ROUTED_HIT_RATIO
from tierscope.registry.block_metrics import REUSE_GAP
from tierscope.registry.metrics import REQUEST_TOKENS, REQUESTS, TIME_TO_FIRST_TOKEN
from tierscope.registry.miss_metrics import MISS_TOKENS

ENDPOINT = "{{namespace}}/{{endpoint}}"
REPLICA = "{{replica}}"
NAMED = 5
"""Replicas named at either end of a panel, whatever their number."""
COMPARED = "Over the newest requests when routers were last compared: every half hour."
NO_NEW = "No engine is younger than half an hour, or Prometheus does not load tierscope-rules.yaml"


def routing_board() -> str:
    """The board as classic dashboard JSON."""
    return board(
        "tierscope-routing",
        "Tierscope / Routing",
        "Does the router balance the replicas, and does it bring prompts to where their prefix lies? What it "
        "counted on is what its index would have held, as we model it: no router publishes that.",
        [
            Section("Balance now", _balance_now(), height=5),
            Section(
                "Load by replica: mean, extremes, and who they are", [_requests(), _computed(), _waits()]
            ),
            Section("Predicted against delivered", [_predicted(), _split(), _computed_elsewhere()]),
            Section("What routing delivers", [_found_here(), _came_back(), _origins()]),
            Section("Hits by replica", [_cached_spread(), _cached_least()]),
            Section("Replicas that come, and requests that go", [_serving(), _new(), _unserved()]),
        ],
        annotation=regression_annotation(),
    )


def _balance_now() -> list[Panel]:
    note = "1 is balance; of the replicas that serve."
    return [
        number(
            Question("Requests: busiest over mean", REQUESTS, NO_REQUESTS, note),
            Query(routing.busiest_over_mean(routing.requests()), ENDPOINT),
            unit=TIMES,
        ),
        number(
            Question("Computed tokens: busiest over mean", REQUEST_TOKENS, NO_REQUESTS, note),
            Query(routing.busiest_over_mean(routing.computed_tokens()), ENDPOINT),
            unit=TIMES,
        ),
        number(
            Question(
                "Hits found on the replica's node",
                REQUEST_TOKENS,
                NO_REQUESTS,
                "L0 and L1 over all that caches served. The rest lay in the shared pool: another replica, or "
                "an earlier day, had it.",
            ),
            Query(routing.found_here_ratio(), "here"),
            unit=RATIO,
        ),
    ]


def _spread(by_replica: str) -> list[Query]:
    """The mean and both extremes, then the replicas that have most."""
    return [
        Query(routing.across("avg", by_replica), "mean"),
        Query(routing.across("min", by_replica), "least"),
        Query(routing.most(NAMED, by_replica), REPLICA),
    ]


def _requests() -> Panel:
    question = Question("Requests by replica", REQUESTS, NO_REQUESTS, f"The {NAMED} busiest by name.")
    return lines(question, _spread(routing.requests()), unit=REQUESTS_PER_SECOND)


def _computed() -> Panel:
    question = Question(
        "Computed tokens by replica",
        REQUEST_TOKENS,
        NO_REQUESTS,
        f"What a replica works for: few requests of long new prompts weigh as much as many. The {NAMED} "
        "busiest by name.",
    )
    return lines(question, _spread(routing.computed_tokens()), unit=TOKENS_PER_SECOND)


def _waits() -> Panel:
    question = Question(
        "Mean TTFT by replica",
        TIME_TO_FIRST_TOKEN,
        NO_REQUESTS,
        f"The {NAMED} slowest by name.",
        "tierscope-ttft",
    )
    return lines(question, _spread(routing.mean_ttft()), unit=SECONDS)


def _predicted() -> Panel:
    question = Question(
        "Hits in L0 and L1: possible, predicted, delivered",
        ROUTED_HIT_RATIO,
        NO_ROUTERS,
        f"Share of the prompt tokens. {COMPARED} No prediction: the policy foretells nothing.",
    )
    points = [
        Query(routing.hits_at("best"), f"{ENDPOINT} best replica"),
        Query(routing.hits_at("predicted"), f"{ENDPOINT} predicted"),
        Query(routing.hits_at("delivered"), f"{ENDPOINT} delivered"),
    ]
    return lines(question, points, unit=RATIO, largest=1)


def _split() -> Panel:
    question = Question(
        "Prompt tokens that L0 and L1 did not serve, by why",
        ROUTED_HIT_RATIO,
        NO_ROUTERS,
        f"Share of the prompt tokens. {COMPARED} Below 0: it worked out better than what was reckoned with.",
    )
    parts = [
        Query(routing.nowhere(), f"{ENDPOINT} no replica had them"),
        Query(routing.lost_by_pick(), f"{ENDPOINT} another replica had them"),
        Query(routing.lost_by_belief(), f"{ENDPOINT} the router believed in them"),
    ]
    return lines(question, parts, unit=RATIO, signed=True)


def _computed_elsewhere() -> Panel:
    question = Question(
        "Computed although another replica had it",
        MISS_TOKENS,
        NO_CAUSES,
        "Share of the computed tokens, as requests come in.",
    )
    return lines(question, [Query(routing.computed_for_routing(), ENDPOINT)], unit=RATIO, largest=1)


def _found_here() -> Panel:
    question = Question(
        "Hits found on the replica's node over time",
        REQUEST_TOKENS,
        NO_REQUESTS,
        "A router that loses prefixes moves hits from L0 and L1 to the pool, or makes them misses.",
        "tierscope-tier-l2",
    )
    return lines(question, [Query(routing.found_here_ratio(), "on the node")], unit=RATIO, largest=1)


def _came_back() -> Panel:
    question = Question(
        "Blocks asked for again on the same replica",
        REUSE_GAP,
        NO_REQUESTS,
        "By where they were. Fewer with the same traffic: prompts reach other replicas than before.",
    )
    return lines(question, [Query(routing.came_back(), "{{tier}}")], unit=BLOCKS_PER_SECOND, stacked=True)


def _origins() -> Panel:
    question = Question(
        "Hit ratio by tier", REQUEST_TOKENS, NO_REQUESTS, "Share of the prompt tokens looked up."
    )
    return lines(question, [Query(tokens.served_ratio_by_tier(), "{{tier}}")], unit=RATIO, largest=1)


def _cached_spread() -> Panel:
    question = Question(
        "Cached share over the replicas", REQUEST_TOKENS, NO_REQUESTS, "A wide band: some replicas are cold."
    )
    shares = [
        Query(routing.share_of_replicas(share, routing.cached_ratio()), f"{share:.0%} of replicas are below")
        for share in (0.1, 0.5, 0.9)
    ]
    return lines(question, shares, unit=RATIO, largest=1)


def _cached_least() -> Panel:
    question = Question(f"The {NAMED} replicas with the least cached share", REQUEST_TOKENS, NO_REQUESTS)
    return lines(
        question, [Query(routing.least(NAMED, routing.cached_ratio()), REPLICA)], unit=RATIO, largest=1
    )


def _serving() -> Panel:
    question = Question("Replicas that serve", REQUESTS, NO_REQUESTS)
    return lines(question, [Query(routing.replicas_that_serve(), ENDPOINT)], unit=COUNT)


def _new() -> Panel:
    question = Question(
        "Engines younger than half an hour",
        REQUEST_TOKENS,
        NO_NEW,
        "Their tiers are still filling: hits fall.",
    )
    return lines(question, [Query(routing.new_engines(), ENDPOINT)], unit=COUNT)


def _unserved() -> Panel:
    question = Question(
        "Admissions without a first token",
        REQUESTS,
        "Every admission of this time reached its first token, or nothing was admitted",
        "A readmitted request was preempted: its replica had too little L0.",
    )
    return lines(question, [Query(routing.by_status(), "{{status}}")], unit=REQUESTS_PER_SECOND)
