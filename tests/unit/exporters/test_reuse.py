"""How long blocks wait until they are wanted again, and where they come from then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters import reuse
from exporters.reuse import Reuse, ReuseGaps
from tests.ledgers import ENGINES, admission
from tierscope.domain.requests import RequestStatus
from tierscope.domain.tiers import Origin


@pytest.fixture
def gaps():
    return ReuseGaps()


def take(gaps, path, at, **fields):
    return list(gaps.take(replace(admission(path, at=at, **fields), model="m")))


def test_what_is_wanted_the_first_time_has_no_gap(gaps):
    """Nothing was before it."""
    assert take(gaps, "abc", 100.0) == []


def test_a_gap_is_told_by_where_the_block_came_from_the_second_time(gaps):
    """Two blocks from L0, one from L1, one computed again although it had been there."""
    take(gaps, "ab", 100.0)
    take(gaps, "abcd", 110.0, shares=[32])

    found = take(gaps, "abcde", 140.0, shares=[32, 16])

    assert found == [
        Reuse(Origin.L0, 30.0, 2),
        Reuse(Origin.L1, 30.0, 1),
        Reuse(Origin.COMPUTED, 30.0, 1),
    ]


def test_blocks_last_used_at_different_times_have_gaps_of_their_own(gaps):
    """The root was used by the request in between, the rest only by the first."""
    take(gaps, "abc", 100.0)
    take(gaps, "a", 150.0)

    assert take(gaps, "abc", 160.0, shares=[48]) == [Reuse(Origin.L0, 10.0, 1), Reuse(Origin.L0, 60.0, 2)]


@pytest.mark.parametrize("status", [RequestStatus.ABORTED, RequestStatus.READMITTED])
def test_only_served_first_admissions_want_blocks(gaps, status):
    """A preempted request that comes back finds its own blocks: that is no reuse."""
    take(gaps, "abc", 100.0)

    assert take(gaps, "abc", 110.0, status=status) == []
    assert take(gaps, "abc", 120.0, shares=[48]) == [Reuse(Origin.L0, 20.0, 3)]


def test_a_request_that_asks_no_cache_wants_nothing_but_leaves_its_blocks(gaps):
    """UD-03: with prompt_logprobs no block can be hit; later requests may hit what it computed."""
    take(gaps, "abc", 100.0)
    record = replace(admission("abc", at=110.0), model="m", asks_cache=False)

    assert list(gaps.take(record)) == []
    assert take(gaps, "abc", 120.0, shares=[48]) == [Reuse(Origin.L0, 10.0, 3)]


def test_engines_and_models_have_their_own_blocks(gaps):
    """The same prefix on another engine is another block."""
    take(gaps, "abc", 100.0)

    assert take(gaps, "abc", 110.0, engine=ENGINES[1]) == []


def test_memory_is_bounded_and_what_was_used_lately_stays(gaps, monkeypatch):
    """Blocks never seen again are forgotten; one that is used again and again is not."""
    monkeypatch.setattr(reuse, "MOST_BLOCKS", 20)
    for n in range(100):
        take(gaps, ["root", f"leaf {n}"], float(n))

    (uses,) = gaps._uses.values()
    assert len(uses.young) + len(uses.old) <= 20
    assert take(gaps, ["root"], 100.0, shares=[16]) == [Reuse(Origin.L0, 1.0, 1)]
    assert take(gaps, ["root", "leaf 0"], 101.0) == [Reuse(Origin.COMPUTED, 1.0, 1)]
