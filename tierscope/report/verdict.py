"""The first thing one reads: how it stands, in one sentence, and what it rests on in the next."""

from __future__ import annotations

from tierscope.advice.document import Recommendation, Status
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Origin
from tierscope.report.material import Material
from tierscope.report.words import (
    NOT_KNOWN,
    completeness,
    estimate_ratio,
    estimate_seconds,
    number,
    ratio,
    seconds,
    span,
    what_changes,
)


def verdict(material: Material) -> tuple[str, str]:
    """A word for the page's mark (`good`, `act`, `bad`, `unknown`) and the sentence."""
    found = material.recommendation
    if found is None:
        return "unknown", "There is no advice yet."
    critical = [one for one in found.findings if one.severity is Severity.CRITICAL]
    if critical:
        more = f" ({len(critical)} critical findings)" if len(critical) > 1 else ""
        return "bad", f"Look at this first: {critical[0].title.rstrip('.')}{more}."
    return _advice(found)


def _advice(found: Recommendation) -> tuple[str, str]:
    if found.status is Status.RECOMMEND:
        changes = ", then ".join(what_changes(change) for change in found.changes)
        return "act", f"Change {changes}. Expected: {_expected(found)}."
    if found.status is Status.NO_CHANGE:
        return "good", "Change nothing: the sizes of today do what is asked of them."
    wanting = "; ".join(part.what for part in found.evidence.missing) or "the evidence does not carry any"
    return "unknown", f"No advice: what is missing is {wanting}."


def _expected(found: Recommendation) -> str:
    """What the changes together should bring, beside what was there in the time the advice rests on."""
    then = found.changes[-1].predicted
    shares = [state.hit_ratio for state in found.current.tiers.values()]
    known = [share for share in shares if share is not None]
    now = ratio(sum(known)) if len(known) == len(shares) else NOT_KNOWN
    cached = f"{estimate_ratio(then.hit_ratio.total)} of prompt tokens from a cache, until now {now}"
    if then.ttft_p50_seconds is None:
        return cached
    median = estimate_seconds(then.ttft_p50_seconds)
    return f"{cached}; median TTFT {median}, until now {seconds(found.current.ttft.p50)}"


def findings_first(material: Material) -> bool:
    """Whether a finding is graver than something one may like to know."""
    found = material.recommendation
    return found is not None and any(one.severity is not Severity.INFO for one in found.findings)


def numbers(material: Material) -> str:
    """How the last hour went, and how much of it was seen."""
    found = material.explanation
    if found is None:
        return "What happened to the tokens is not known: see below."
    when = span(found.start_unix_seconds, found.end_unix_seconds)
    if not found.requests:
        return f"No request was served from {when}, as far as records arrived."
    cached = 1 - found.tokens[Origin.COMPUTED] / found.prompt_tokens
    return (
        f"{ratio(cached)} of {number(found.prompt_tokens)} prompt tokens in {number(found.requests)} "
        f"requests came from a cache, {when}. Records that arrived: {completeness(found.completeness_ratio)}."
    )
