"""Why tokens were computed, in the advice: shares, seconds and the room that would have helped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests import workloads as w
from tierscope.advice.document import FindingKind
from tierscope.advice.miss_findings import miss_findings
from tierscope.advice.routing.advisor import Advisor
from tierscope.domain.tiers import Tier

DOCUMENT_BYTES = 4 * w.CHUNK_BYTES


def told(l1_documents: int, **changes) -> str:
    """Of forty documents in turn, asked for in 2,000 requests."""
    deployment = w.deployment(l1_documents * DOCUMENT_BYTES)
    evidence = w.served(w.window(w.cycle(40, 2000)), deployment)
    [finding] = miss_findings(replace(evidence, window=replace(evidence.window, **changes)), deployment)
    return finding.evidence


def test_an_l1_of_half_the_documents_wants_room_for_the_other_half():
    """UD-62: twenty documents more would have hit everything but the last token of each prompt."""
    evidence = told(20)

    assert "99.6% capacity_l1" in evidence
    assert "Larger L1: 99.6% with 5.0 MiB more." in evidence
    assert "of TTFT" not in evidence


def test_two_hours_say_how_much_l1_is_wanted_and_what_each_part_of_it_brings():
    """UD-46: the size with its curve, and hits for each step of room until no more is to be had."""
    deployment = w.deployment(20 * DOCUMENT_BYTES)
    chains = w.drawn(120, 3000, np.random.default_rng(2))
    evidence = w.served(w.window(chains, seconds=7200.0), deployment)
    document = Advisor()(evidence, deployment, now_unix_seconds=w.NOW)
    [size] = [change for change in document.changes if change.target == "l1"]
    [told_of] = [one for one in document.findings if one.kind is FindingKind.MISS_CAUSES]
    steps = [float(part.split("%")[0]) for part in told_of.evidence.partition("Larger L1: ")[2].split(", ")]

    assert size.to > size.from_
    curve = document.curves[Tier.L1]
    assert curve.recommended.capacity_bytes == size.to
    assert list(curve.hit_ratio) == sorted(curve.hit_ratio)
    assert len(steps) >= 3
    assert steps == sorted(steps)


def test_seconds_are_told_where_a_token_has_a_price():
    """A tenth of a millisecond a token, of prompts of two lengths."""
    ttft = np.where(np.arange(2000) % 2, 0.02 + 1e-4 * 257, 0.02 + 1e-4 * 2)
    computed = np.where(np.arange(2000) % 2, 257, 2).astype(np.int64)
    l1 = 257 - computed

    assert "of TTFT" in told(20, ttft_seconds=ttft, computed=computed, l1=l1)


def test_nothing_is_told_where_nothing_was_computed_or_sizes_are_not_known():
    """No causes, no finding."""
    deployment = w.deployment(DOCUMENT_BYTES, bytes_per_token=None)

    assert not list(miss_findings(w.evidence(w.window(w.cycle(4, 40))), deployment))
