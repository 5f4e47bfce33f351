"""Why first tokens are late: against what is expected, by cause, by tier, by what had to be computed."""

from __future__ import annotations

from collections.abc import Callable

from dashboards.annotations import regression_annotation
from dashboards.boards.empty import FIVE_MINUTES, NO_LOADS, NO_RECORDINGS, NO_REQUESTS
from dashboards.layout import Section, board
from dashboards.panels import (
    RATIO,
    SECONDS,
    TIMES,
    TOKENS,
    Panel,
    Query,
    Question,
    lines,
    listing,
    number,
)
from dashboards.queries import latency, tiers, tokens
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import LOAD_SECONDS, REQUEST_TOKENS, TIME_TO_FIRST_TOKEN
from tierscope.registry.regression_metrics import (
    DETECTOR_STATE,
    TTFT_EXPECTED,
    TTFT_REGRESSION,
    TTFT_REGRESSION_SECONDS,
    TTFT_RISE,
)

TRACED = 0.99
"""The one query of a panel that asks for traces too: each would ask for the same ones."""
GROUP = "{{namespace}}/{{endpoint}} {{model}} {{workload}}"
"""Each has its own baseline; a workload is the Deployment or StatefulSet of the replicas."""
NO_DETECTOR = "No collector is scraped, or its detector still learns what is usual"
NO_REGRESSION = "No regression goes on, or no collector is scraped: see Detector"


def ttft_board() -> str:
    """The board as classic dashboard JSON."""
    return board(
        "tierscope-ttft",
        "Tierscope / TTFT",
        "Do first tokens come later than their prompts explain, since when, and who did it? From the top: is "
        "there a regression, which part grew, which tier's requests wait, and is it loads or computing.",
        [
            Section("Is it what the prompts explain?", _expected(), height=7),
            Section("Regressions that go on", [_raised()], height=6),
            Section("Which part grew", [_rise(), _detector()]),
            Section("TTFT by who served", [_by_tier(0.5), _by_tier(0.9), _requests()]),
            Section("The objective, and what is asked", [_all(), _late(), _asked()]),
            Section("Waiting for loads", [_loads(tier) for tier in (Tier.L1, Tier.L2)]),
            Section(
                "What the replicas chosen do themselves (their own buckets: choose few)",
                _chosen(),
                closed=True,
            ),
        ],
        annotation=regression_annotation(),
    )


def _expected() -> list[Panel]:
    against = Question(
        "TTFT over expected",
        TTFT_EXPECTED,
        NO_DETECTOR,
        "1 is as before; longer prompts alone do not raise it.",
    )
    now = Question("TTFT over expected, over time", TTFT_EXPECTED, NO_DETECTOR)
    return [
        number(against, Query(latency.against_expected(), GROUP), unit=TIMES),
        lines(now, [Query(latency.against_expected(), GROUP)], unit=TIMES),
    ]


def _rise() -> Panel:
    question = Question(
        "Seconds added, by part",
        TTFT_RISE,
        NO_DETECTOR,
        "Of the model and workload where each part adds most. Mix is what people ask; below 0 it got better.",
    )
    return lines(question, [Query(latency.rise_by_cause(), "{{cause}}")], unit=SECONDS, signed=True)


def _raised() -> Panel:
    question = Question(
        "Regressions that go on",
        TTFT_REGRESSION_SECONDS,
        NO_REGRESSION,
        f"{TTFT_REGRESSION.answers} Times are UTC.",
    )
    return listing(
        question,
        Query(latency.regressions(TTFT_REGRESSION_SECONDS), ""),
        unit=SECONDS,
        of="longer than explained",
        first=(*latency.GROUP, *latency.RAISED),
    )


def _detector() -> Panel:
    question = Question("Detector", DETECTOR_STATE, "No collector is scraped, or it knows no endpoint")
    states = Query(latency.detector_state(), "")
    return listing(question, states, unit="none", of="now", first=(*latency.GROUP, "state"))


def _by_tier(share: float) -> Panel:
    question = Question(
        f"TTFT p{share * 100:.0f} by who served", TIME_TO_FIRST_TOKEN, NO_RECORDINGS, FIVE_MINUTES
    )
    asked = [Query(latency.ttft_quantile(share, origin), "{{served_from}}") for origin in tokens.ORIGINS]
    return lines(question, asked, unit=SECONDS)


def _requests() -> Panel:
    question = Question(
        "Requests by who served",
        TIME_TO_FIRST_TOKEN,
        NO_RECORDINGS,
        f"A request counts for the outermost tier that served any of it. {FIVE_MINUTES}",
    )
    shares = [Query(latency.requests_ratio(origin), "{{served_from}}") for origin in tokens.ORIGINS]
    return lines(question, shares, unit=RATIO, stacked=True, largest=1)


def _all() -> Panel:
    question = Question("TTFT of all requests", TIME_TO_FIRST_TOKEN, NO_RECORDINGS, FIVE_MINUTES)
    return lines(question, _quantiles(latency.ttft_quantile_of_all), unit=SECONDS)


def _late() -> Panel:
    question = Question(
        "Requests that miss the objective",
        TIME_TO_FIRST_TOKEN,
        NO_RECORDINGS,
        "The objective is the one that the rules were built with; alerts burn its budget.",
    )
    return lines(question, [Query(latency.late_ratio(), "{{namespace}}/{{endpoint}}")], unit=RATIO, largest=1)


def _asked() -> Panel:
    question = Question(
        "Tokens of a request", REQUEST_TOKENS, NO_RECORDINGS, "What was asked for, and what no cache had."
    )
    both = [
        Query(latency.prompt_tokens_a_request(), "prompt"),
        Query(latency.computed_tokens_a_request(), "computed"),
    ]
    return lines(question, both, unit=TOKENS)


def _loads(tier: Tier) -> Panel:
    question = Question(
        f"Wait for loads from {tier.upper()}", LOAD_SECONDS, NO_LOADS, "", f"tierscope-tier-{tier}"
    )
    return lines(question, _quantiles(lambda share: tiers.load_wait(tier, share)), unit=SECONDS)


def _chosen() -> list[Panel]:
    question = Question(
        "TTFT of the replicas chosen",
        TIME_TO_FIRST_TOKEN,
        NO_REQUESTS,
        "Dots are requests with a trace of their own: click one to see its tokens by tier. They need "
        "exemplars in Prometheus, and in Grafana's data source the place where traces are.",
    )
    shares = [
        Query(latency.ttft_of_replicas(share), f"p{share * 100:.0f}", traces=share == TRACED)
        for share in (0.5, 0.9, TRACED)
    ]
    return [lines(question, shares, unit=SECONDS)]


def _quantiles(expression: Callable[[float], str]) -> list[Query]:
    return [Query(expression(share), f"p{share * 100:.0f}") for share in (0.5, 0.9, 0.99)]
