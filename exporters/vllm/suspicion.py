"""Numbers of an engine's page that lie in some releases: how each shows, and what is used instead.

Everything is judged from one page, by numbers that contradict each other, because a page does not say of
which release it is. All are since the engine began, so a finding stays as long as its cause is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from exporters.oddities import Finding
from exporters.vllm.readings import EngineReading
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity

ALLOWANCE = 0.01
"""Share by which two counters of one page may differ without contradicting each other."""

LOOKUP_ALLOWANCE = 0.05
"""Share of the prompt tokens whose requests may have ended between their lookup and their first token."""

FEWEST_TOKENS = 4096
"""Tokens looked up before the hit counter is judged."""


class Suspect(StrEnum):
    """What is wrong with an engine's counters."""

    EXTERNAL_WHOLE_PROMPT = "external_queries_count_whole_prompts"
    """The connector's queries hold what L0 served too, so its hit ratio looks smaller than it is."""
    EXTERNAL_TWICE = "external_queries_count_requests_twice"
    """A request that loads is asked for twice, so the connector's hit ratio looks smaller than it is."""
    EXTERNAL_SKIPPING = "external_queries_count_requests_that_skip_the_cache"
    """Requests that want no cache count as misses of the connector."""
    EXTERNAL_TOO_MANY = "external_queries_exceed_what_l0_left_over"
    """The connector was asked for more than L0 left over, for a reason not known."""
    LOOKUPS_INFLATED = "lookups_count_requests_more_than_once"
    """A request that waits is looked up again and again, and each time counts."""
    HITS_STUCK = "hit_counter_stays_at_zero"
    """L0 hits stay at zero although requests are served as if they hit."""
    SEVERAL_SERVERS = "several_servers_on_one_page"
    """Servers with counters of their own answer at one address in turn."""
    STRIDES_MISSING = "l1_events_leave_out_blocks"
    """Only every n-th block that is stored in host memory is told: how full L1 is, is not known."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of one engine's reading may be used, and why not the rest.

    `lookups` are its own counters of L0 queries and hits, `split` the parts of its prompt tokens.
    """

    findings: tuple[Finding, ...] = ()
    lookups: bool = True
    split: bool = True


def judge(reading: EngineReading, *, where: str) -> Verdict:
    """Judge one engine's reading; `where` is the page's address, for messages."""
    where = f"{where}, model {reading.model}, engine {reading.engine_label}"
    external = tuple(_external(reading, where))
    if _inflated(reading):
        # Hits are inflated with the queries. From 0.16 on the parts of the prompts are counted apart.
        split = bool(reading.by_source)
        return Verdict((*external, _lookups_inflated(reading, where)), lookups=False, split=split)
    if _stuck(reading):
        return Verdict((*external, _hits_stuck(reading, where)), lookups=False, split=False)
    return Verdict(external)


def strides_missing(stride: int, holes: int, judged: int, *, where: str) -> Finding:
    """Of the blocks in host memory only every `stride`-th is told; `where` names the engine's events."""
    error = BadInput(
        f"the engine's events name every {_ordinal(stride)} block of what it stores in host memory: "
        f"{holes} of {judged} blocks lie behind one that was never told",
        where=where,
        fix="which blocks L1 holds is left out until the engine restarts; ranks that hold the same heads "
        "share the blocks among them: use a release whose connector tells the blocks of all of them",
    )
    return Finding(Suspect.STRIDES_MISSING, Severity.WARNING, error)


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _external(reading: EngineReading, where: str) -> Iterator[Finding]:
    """The connector was asked for more than L0 left over, in one of four ways."""
    asked, left, queries = reading.external_queries, reading.left_over, reading.queries
    if asked is None or left is None or queries is None or asked <= left * (1 + ALLOWANCE):
        return
    if reading.by_source:
        suspect, severity = Suspect.EXTERNAL_SKIPPING, Severity.INFO
        why = "requests that skip the cache (prompt_logprobs, some pooling) count as full misses"
    elif asked > queries * (1 + ALLOWANCE):
        suspect, severity = Suspect.EXTERNAL_TWICE, Severity.WARNING
        why = "a request whose load is asynchronous counts twice, and hits the second time never"
    elif asked >= queries * (1 - ALLOWANCE):
        suspect, severity = Suspect.EXTERNAL_WHOLE_PROMPT, Severity.WARNING
        why = "whole prompts count, not what L0 left over of them"
    else:
        suspect, severity = Suspect.EXTERNAL_TOO_MANY, Severity.WARNING
        why = "this release counts whole prompts, or some requests twice"
    yield _finding(
        suspect,
        severity,
        f"vllm:external_prefix_cache_queries counts {asked} tokens of which L0 left over only {left}: {why}",
        where,
        f"it is not used; L0's queries less its hits stand in for it, "
        f"which makes the connector's hit ratio {_percent(reading.external_hits, left)}, "
        f"not {_percent(reading.external_hits, asked)}",
    )


def _inflated(reading: EngineReading) -> bool:
    """Whether L0 was asked for more tokens than prompts can explain, those not yet served included."""
    if None in (reading.queries, reading.prompt, reading.requests):
        return False
    longest = reading.prompt_length.longest if reading.prompt_length else None
    if not reading.prompt or longest is None:
        return False
    under_way = (reading.requests or 0) * longest
    return (reading.queries or 0) > reading.prompt * (1 + LOOKUP_ALLOWANCE) + under_way


def _lookups_inflated(reading: EngineReading, where: str) -> Finding:
    instead = (
        "prompt_tokens_by_source stands in for it"
        if reading.by_source
        else "this release has nothing that could stand in for it: prompt tokens are not split by tier"
    )
    return _finding(
        Suspect.LOOKUPS_INFLATED,
        Severity.WARNING,
        f"vllm:prefix_cache_queries counts {reading.queries} tokens for {reading.prompt} tokens of prompts: "
        "requests are looked up again after a preemption or while they wait for room, and each time counts",
        where,
        f"neither it nor vllm:prefix_cache_hits is used; {instead}. From 0.28 on each request counts once",
    )


def _stuck(reading: EngineReading) -> bool:
    """Whether prompts were served faster than computing them allows, though nothing was ever hit."""
    if reading.hits != 0 or (reading.queries or 0) < FEWEST_TOKENS or reading.external_hits:
        return False
    return _computed_less(reading) or _two_speeds(reading)


def _computed_less(reading: EngineReading) -> bool:
    """Whether finished requests computed less than their prompts."""
    length, computed = reading.prompt_length, reading.computed_length
    if length is None or computed is None or length.observations != computed.observations:
        return False
    return computed.sum < length.sum * (1 - LOOKUP_ALLOWANCE)


def _two_speeds(reading: EngineReading) -> bool:
    """Whether first tokens came at two speeds that neither waiting nor the prompts' lengths explain."""
    modes = reading.ttft.modes() if reading.ttft else None
    if modes is None or reading.prompt_length is None or reading.queue is None:
        return False
    if reading.prompt_length.modes() is not None or not reading.queue.observations:
        return False
    waited = reading.queue.sum / reading.queue.observations
    return waited < 0.2 * (modes[1] - modes[0])


def _hits_stuck(reading: EngineReading, where: str) -> Finding:
    modes = reading.ttft.modes() if reading.ttft else None
    sign = (
        "finished requests computed less than their prompts"
        if _computed_less(reading) or modes is None
        else f"first tokens come after {modes[0]:.2f} s or {modes[1]:.2f} s, at equal lengths and no wait"
    )
    return _finding(
        Suspect.HITS_STUCK,
        Severity.WARNING,
        f"vllm:prefix_cache_hits is 0 after {reading.queries} tokens looked up, but {sign}",
        where,
        "neither it nor the split that follows from it is used: this is no hit ratio of 0. Seen on hybrid "
        "models with speculative decoding; KV events and the engine hook are not affected",
    )


def _finding(suspect: Suspect, severity: Severity, what: str, where: str, fix: str) -> Finding:
    return Finding(suspect, severity, BadInput(what, where=where, fix=fix))


def _percent(part: int | None, whole: int) -> str:
    return "unknown" if part is None or not whole else f"{part / whole:.0%}"
