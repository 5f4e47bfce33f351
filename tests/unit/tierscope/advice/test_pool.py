"""`l2_never_evicts` needs both signs: a pool that stays full, and hits that eviction would have given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import workloads as w
from tierscope.advice.document import FindingKind
from tierscope.advice.sizing.pool import eviction_findings
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier


def readings(*used: float) -> list[TierSample]:
    """Readings a minute apart that end with the window, of a pool of 100 bytes."""
    start = w.START + 3600 - 60 * len(used)
    return [
        TierSample(Tier.L2, "pool", start + 60 * i, capacity_bytes=100.0, used_bytes=value)
        for i, value in enumerate(used)
    ]


def test_a_full_pool_that_serves_too_little_never_evicts(starving):
    """Full for ten readings, never falling, and half of the tokens are missing from cache."""
    [finding] = eviction_findings(readings(50, 90, *[99.0] * 10), *starving)

    assert finding.kind is FindingKind.L2_NEVER_EVICTS
    assert "10 readings in a row" in finding.evidence
    assert "client.ttl-ms" in finding.fix


@pytest.mark.parametrize(
    "used",
    [[50.0] * 10, [99.0] * 4, [99, 99, 99, 99, 99, 60, 70], [99, 99, 98.5, 99, 99, 98.2], []],
    ids=["not full", "too few", "made room", "usage falls", "no reading"],
)
def test_without_a_pool_that_stays_full_nothing_is_said(starving, used):
    """Few hits alone have many reasons."""
    assert not list(eviction_findings(readings(*used), *starving))


def test_a_few_requests_since_the_pool_is_full_prove_nothing(starving):
    """Five readings within a minute see sixteen requests: too few to compare hits over."""
    late = [replace(one, at_unix_seconds=w.START + 3540 + i) for i, one in enumerate(readings(*[99.0] * 5))]

    assert not list(eviction_findings(late, *starving))


def test_a_full_pool_that_serves_as_it_should_is_in_order(starving):
    """A pool that makes room is full all the time."""
    window, modelled = starving
    served = replace(window, l2=modelled.l2, computed=modelled.computed)

    assert not list(eviction_findings(readings(*[99.0] * 10), served, modelled))
