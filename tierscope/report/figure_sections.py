"""What happened: each section says what it shows and rests on, draws it, and has the same as a table."""

from __future__ import annotations

from collections.abc import Iterator

from tierscope.advice.curves import Curve
from tierscope.advice.document import Recommendation
from tierscope.advice.explain import Explanation, MissCauses
from tierscope.analytics.misses import Cause
from tierscope.domain.events import SourceCoverage
from tierscope.domain.requests import TokenSplit
from tierscope.domain.tiers import Origin, Tier
from tierscope.report import figures
from tierscope.report.figures import Figure
from tierscope.report.markup import Child, Html, data, el, table
from tierscope.report.material import Material
from tierscope.report.words import (
    CAUSES,
    NOT_KNOWN,
    ORIGINS,
    TIERS,
    ago,
    completeness,
    number,
    ratio,
    seconds,
    size,
    span,
)

Parts = Iterator[Child]
NOTHING_READ = "No data, because what happened to the tokens could not be read."


def flow(material: Material) -> Parts:
    """Where the KV values of prompt tokens came from."""
    found = material.explanation
    if found is None or not found.requests:
        yield _absent(
            NOTHING_READ if found is None else "No data, because no request was served in this span."
        )
        return
    yield _rests_on(found)
    rows = (
        (ORIGINS[origin], number(tokens), ratio(tokens / found.prompt_tokens))
        for origin, tokens in found.tokens.items()
    )
    told = table("Prompt tokens by where their KV values came from", ("served by", "tokens", "share"), rows)
    cached = ratio(1 - found.tokens[Origin.COMPUTED] / found.prompt_tokens)
    yield _chart("flow", f"Flow of prompt tokens: {cached} from a cache.", figures.flow(found), told)


def misses(material: Material) -> Parts:
    """Why tokens were computed, and what more room would have saved."""
    found = material.explanation
    if found is None:
        yield _absent(NOTHING_READ)
        return
    causes = found.misses.causes
    if causes is None:
        yield _absent(f"No data, because {found.misses.absent_because}.")
        return
    yield _rests_on(found)
    computed = sum(causes.values())
    if not computed:
        yield el("p", "Nothing was computed.")
        return
    largest = max(Cause, key=lambda cause: causes[cause])
    told = table(
        "Computed tokens by cause, and what computing them took",
        ("cause", "tokens", "share of computed", "seconds", "cost", "what it means"),
        (
            (
                CAUSES[one][0],
                number(causes[one]),
                ratio(causes[one] / computed),
                *_price(found.misses, one),
                CAUSES[one][1],
            )
            for one in Cause
        ),
    )
    words = f"Most were computed because: {CAUSES[largest][0]} ({ratio(causes[largest] / computed)})."
    yield _chart("misses", words, figures.misses(causes), told)
    if found.misses.room:
        yield el("h3", "What more room would have saved")
        yield table(
            "Tokens that more room would have served, each step beyond those before it",
            ("tier", "more in each holder", "tokens", "share of computed"),
            (
                (
                    room.tier.value.upper(),
                    size(room.extra_bytes),
                    number(room.tokens),
                    ratio(room.tokens / computed),
                )
                for room in found.misses.room
            ),
        )


def _price(misses: MissCauses, cause: Cause) -> tuple[str, str]:
    """Seconds of TTFT and money that a cause cost; said to be unknown where no model or no price tells."""
    took = NOT_KNOWN if misses.seconds is None else seconds(misses.seconds[cause])
    cost = NOT_KNOWN if misses.money is None else f"{misses.money[cause]:,.2f} {misses.currency}"
    return took, cost


def curves(material: Material) -> Parts:
    """Hit ratio by size of each tier, with today's and the advised point."""
    found = material.recommendation
    if found is None:
        yield _absent("No data, because curves come with a recommendation, and there is none.")
        return
    yield table(
        "Tiers today",
        ("tier", "size", "used", "share of prompt tokens"),
        (
            (TIERS[tier], size(state.capacity_bytes), size(state.used_bytes), ratio(state.hit_ratio))
            for tier, state in found.current.tiers.items()
        ),
    )
    if not found.curves:
        missing = "; ".join(part.what for part in found.evidence.missing) or "no tier could be modelled"
        yield _absent(f"No curves, because this is missing: {missing}.")
    for tier in Tier:
        if tier in found.curves:
            yield el("h3", TIERS[tier])
            yield from _curve(tier, found.curves[tier], found)


def _curve(tier: Tier, curve: Curve, found: Recommendation) -> Parts:
    known = [
        (name, point) for name, point in (("today", curve.current), ("advised", curve.recommended)) if point
    ]
    words = ", ".join(
        f"{name} {size(point.capacity_bytes)}: {ratio(point.hit_ratio)}" for name, point in known
    )
    step = max(1, len(curve.capacity_bytes) // 12)
    points = [
        *((size(point.capacity_bytes), ratio(point.hit_ratio), name) for name, point in known),
        *(
            (size(curve.capacity_bytes[at]), ratio(curve.hit_ratio[at]), None)
            for at in range(0, len(curve.capacity_bytes), step)
        ),
    ]
    caption = f"Share of prompt tokens that {tier.value.upper()} and the tiers above it serve, by its size"
    told = table(caption, ("size of one holder", "share", "which"), points)
    if not curve.capacity_bytes:
        yield _absent("No data, because no size was computed.")
        return
    said = f"{tier.value.upper()} by size; {words or 'today is not known'}."
    yield _chart(f"curve-{tier.value}", said, figures.curve(tier, curve), told)
    if curve.recommended is None and found.changes:
        yield el("p", f"No other size of {tier.value.upper()} is advised.", class_="rests")


def ttft(material: Material) -> Parts:
    """Time to first token by who served, beside what the model expects."""
    found = material.explanation
    if found is None:
        yield _absent(NOTHING_READ)
        return
    by_tier = found.ttft
    if not by_tier.tiers:
        why = (
            "no request was served in this span"
            if not found.requests
            else "no record has a time to first token"
        )
        yield _absent(f"No data, because {why}.")
        return
    yield _rests_on(
        found, f"{number(by_tier.unknown)} of them have no time to first token." if by_tier.unknown else None
    )
    if by_tier.absent_because is not None:
        yield _absent(f"No model to compare with, because {by_tier.absent_because}.")
    told = table(
        "Time to first token by the outermost tier that served any of the prompt",
        ("served from", "requests", "median", "model's median", "9 of 10 are faster"),
        (
            (
                ORIGINS[one.served_from],
                number(one.requests),
                seconds(one.p50),
                seconds(one.expected_p50),
                seconds(one.p90),
            )
            for one in by_tier.tiers
        ),
    )
    slowest = max(by_tier.tiers, key=lambda one: one.p50)
    words = f"Slowest in the median: {ORIGINS[slowest.served_from]}, {seconds(slowest.p50)}."
    yield _chart("ttft", words, figures.ttft(by_tier), told)
    if by_tier.seconds_per_token and by_tier.error_ratio is not None:
        costs = ", ".join(f"{name} {1e6 * value:.1f} µs" for name, value in by_tier.seconds_per_token.items())
        yield el("p", f"The model: a token costs {costs}; half of the requests are within "
                 f"{ratio(by_tier.error_ratio)} of it.", class_="rests")  # fmt: skip


def prefixes(material: Material) -> Parts:
    """Which beginnings of prompts repeat, and how often they were computed all the same."""
    found = material.explanation
    if found is None:
        yield _absent(NOTHING_READ)
        return
    if not found.prefixes:
        why = (
            "no two requests of this span begin alike"
            if found.requests
            else "no request was served in this span"
        )
        yield _absent(f"No data, because {why}.")
        return
    yield _rests_on(found, f"The {len(found.prefixes)} prefixes whose repetition is worth most.")
    told = table(
        "Shared prefixes, the most valuable first; a name is the hash of the last block",
        ("prefix", "tokens", "requests", "replicas", "computed again", "tokens that repeat"),
        (
            (
                el("code", one.block_hash),
                number(one.prefix_tokens),
                number(one.requests),
                number(one.replicas),
                ratio(one.computed_requests / one.requests),
                number(one.repeated_tokens),
            )
            for one in found.prefixes
        ),
    )
    best = found.prefixes[0]
    words = (
        f"The most valuable has {number(best.prefix_tokens)} tokens and {number(best.requests)} requests; "
        f"{ratio(best.computed_requests / best.requests)} of them computed it again."
    )
    yield _chart("prefixes", words, figures.prefixes(found.prefixes), told)


def completeness_of_all(material: Material) -> Parts:
    """How much of what happened was seen, source by source, and whether two ways of counting agree."""
    found = material.explanation
    if found is not None and material.engines is not None and (found.requests or material.engines.prompt):
        yield _two_ways(found, material.engines)
        if found.prompt_tokens > material.engines.prompt > 0:
            yield el(
                "p",
                "The engines' counters count from when they were first read; records may be older.",
                class_="rests",
            )
    if not material.sources:
        yield _absent(
            "No data, because no source reported in this span: how complete the figures are is not known."
        )
        return
    yield table(
        "Streams that the figures rest on",
        ("source", "arrived", "received", "missing", "not understood", "restarts", "last heard of"),
        (_source(part, material.read_at_unix_seconds) for part in material.sources),
    )


def _two_ways(found: Explanation, engines: TokenSplit) -> Html:
    rows = []
    for name, ours, theirs in (
        ("prompt", found.prompt_tokens, engines.prompt),
        ("from L0", found.tokens[Origin.L0], engines.l0),
        (
            "loaded (L1, L2, external)",
            sum(found.tokens[one] for one in (Origin.L1, Origin.L2, Origin.EXTERNAL)),
            engines.l1 + engines.l2 + engines.external,
        ),
        ("computed", found.tokens[Origin.COMPUTED], engines.computed),
    ):
        known = engines.prompt > 0
        rows.append(
            (
                name,
                number(ours),
                number(theirs) if known else NOT_KNOWN,
                _difference(ours, theirs, known=known),
            )
        )
    return table(
        "The same tokens counted twice: by our records, and by the engines' own counters",
        ("tokens", "records", "engines' counters", "difference"),
        rows,
    )


def _difference(ours: int, theirs: int, *, known: bool) -> str:
    if not known:
        return NOT_KNOWN
    return "none" if ours == theirs else f"{'+' if ours > theirs else '−'}{number(abs(ours - theirs))}"


def _source(part: SourceCoverage, now_unix_seconds: float) -> tuple[Child, ...]:
    return (
        el("code", str(part.source)),
        completeness(part.completeness_ratio),
        number(part.received),
        number(part.missing),
        number(part.undecodable),
        number(part.restarts),
        ago(now_unix_seconds - part.at_unix_seconds),
    )


def _rests_on(found: Explanation, more: str | None = None) -> Html:
    when = span(found.start_unix_seconds, found.end_unix_seconds)
    words = (
        f"Rests on {number(found.requests)} requests, {when}; "
        f"records that arrived: {completeness(found.completeness_ratio)}."
    )
    return el("p", words if more is None else f"{words} {more}", class_="rests")


def _absent(words: str) -> Html:
    return el("p", words, class_="absent")


def _chart(name: str, words: str, figure: Figure, told: Html) -> Html:
    """A picture, what it says in words, and its numbers as a table; without scripts the table is all."""
    return el(
        "figure",
        el("figcaption", words, id=f"{name}-says"),
        el(
            "div", id=f"{name}-chart", class_="chart", role="img", aria_labelledby=f"{name}-says", hidden=True
        ),
        data(f"{name}-data", figure),
        el("details", el("summary", "The numbers as a table"), told, open=True),
    )
