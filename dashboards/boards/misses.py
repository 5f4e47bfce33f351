"""Panels on what misses are: why tokens were computed, what that took, and what it cost."""

from __future__ import annotations

from dashboards.boards.empty import NO_CAUSES, NO_COST, NO_MISS_COST, NO_MISS_SECONDS
from dashboards.panels import (
    AN_HOUR,
    SECONDS_EACH_SECOND,
    TOKENS_PER_SECOND,
    Panel,
    Query,
    Question,
    bars,
    lines,
    number,
)
from dashboards.queries import misses
from tierscope.registry.advice_metrics import ADVISED_COST
from tierscope.registry.miss_metrics import MISS_COST, MISS_SECONDS, MISS_TOKENS

LATE = "Over 5 minutes, and a minute or more late."
CAUSES = (
    "capacity_…: a larger tier would have had them; routing: another replica had; compulsory: nobody asked "
    "for them before."
)


def computed_by_cause() -> Panel:
    """Why there are misses; the layers add up to what was computed."""
    question = Question(
        "Computed tokens by cause", MISS_TOKENS, NO_CAUSES, f"{CAUSES} {LATE}", "tierscope-capacity"
    )
    by_cause = [Query(misses.computed_by_cause(), "{{cause}}")]
    return lines(question, by_cause, unit=TOKENS_PER_SECOND, stacked=True)


def seconds_by_cause() -> Panel:
    """What computing them did to TTFT."""
    question = Question(
        "Seconds that computing took, by cause",
        MISS_SECONDS,
        NO_MISS_SECONDS,
        "Of TTFT, over all requests: 1 s/s is one replica that computes prompts all the time. At what a "
        "computed token takes in the newest requests; a gap: nothing was computed, or tokens alone did not "
        f"explain TTFT. {LATE}",
        "tierscope-ttft",
    )
    by_cause = [Query(misses.seconds_by_cause(), "{{cause}}")]
    return lines(question, by_cause, unit=SECONDS_EACH_SECOND, stacked=True)


def cost_now() -> Panel:
    """What all of it costs."""
    question = Question(
        "Computing prompts costs",
        MISS_COST,
        NO_MISS_COST,
        "An hour, of the endpoints chosen: all causes, those included that no cache can help (compulsory). "
        f"Currencies are not added up. {LATE}",
    )
    return number(question, Query(misses.cost(), "{{currency}}"), unit=AN_HOUR, named=True)


def cost_by_cause() -> Panel:
    """The same by what it would take."""
    question = Question(
        "Computing prompts costs, by cause",
        MISS_COST,
        NO_MISS_COST,
        f"An hour, as a replica's share of its instance. {CAUSES} Layers add up within a currency. {LATE}",
        "tierscope-capacity",
    )
    by_cause = [Query(misses.cost_by_cause(), "{{cause}}, {{currency}}")]
    return lines(question, by_cause, unit=AN_HOUR, stacked=True)


def endpoint_cost() -> Panel:
    """What the endpoint costs, and what it would as advised."""
    question = Question(
        "The endpoint costs, today and as advised",
        ADVISED_COST,
        NO_COST,
        "An hour, for instances, host memory and pool, as far as they have prices. No recommended cost: no "
        "size is to change.",
        "tierscope-capacity",
    )
    legend = "{{namespace}}/{{endpoint}} {{point}}, {{currency}}"
    return bars(question, [Query(misses.advised_cost(), legend)], unit=AN_HOUR)
