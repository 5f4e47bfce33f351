"""Conservation and the other things a request record promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.domain.errors import BadInput
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import (
    NO_TOKENS,
    ExternalReason,
    RequestRecord,
    RequestStatus,
    TokenSplit,
)
from tierscope.domain.tiers import Origin

tokens = st.integers(0, 10**9)
splits = st.builds(
    lambda parts: TokenSplit(sum(parts), *parts), st.tuples(tokens, tokens, tokens, tokens, tokens)
)

RECORD = RequestRecord(
    engine=EngineId("ns", "chat", "pod-0"),
    model="m",
    request_id="r1",
    attempt=0,
    status=RequestStatus.SERVED,
    tokens=TokenSplit(prompt=40, l0=16, computed=24),
    block_tokens=16,
    block_hashes=(1, 2),
    arrived_unix_seconds=1.0,
    admitted_unix_seconds=1.5,
)


@given(splits, splits)
def test_sums_of_conserved_splits_are_conserved(one, other):
    """Adding is by origin, and the sum's prompt is the sum of its parts."""
    total = one + other

    assert total.prompt == sum(total.of(origin) for origin in Origin)
    assert total.prompt == one.prompt + other.prompt
    assert all(total.of(origin) == one.of(origin) + other.of(origin) for origin in Origin)


@given(splits)
def test_no_tokens_is_the_neutral_split(split):
    """Adding nothing changes nothing, so sums may start from it."""
    assert split + NO_TOKENS == split


@given(splits, st.integers(-1000, 1000).filter(bool))
def test_a_split_that_does_not_add_up_cannot_be_built(split, error):
    """One token too many or too few is refused, with all six numbers in the message."""
    with pytest.raises(BadInput) as refused:
        replace(split, prompt=split.prompt + error)

    assert str(split.prompt + error) in refused.value.what
    assert f"computed {split.computed}" in refused.value.what


@given(splits.filter(lambda split: split.computed > 0))
def test_a_negative_part_cannot_hide_in_a_sum_that_adds_up(split):
    """A split with l0 below 0 is refused although prompt = l0 + … holds."""
    borrowed = split.l0 + 1

    with pytest.raises(BadInput):
        replace(split, l0=-1, computed=split.computed + borrowed)


@given(splits)
def test_the_six_numbers_come_by_name_in_the_order_of_the_sum(split):
    """Documents and tables print prompt, then the tiers from the GPU outwards, then computed."""
    assert list(split.as_dict()) == ["prompt", "l0", "l1", "l2", "external", "computed"]
    assert split.as_dict()["external"] == split.external


@pytest.mark.parametrize("status", RequestStatus)
def test_only_a_served_first_admission_counts(status):
    """Aborted, readmitted and unresolved admissions are rows outside the sums."""
    record = replace(RECORD, status=status, attempt=int(status is RequestStatus.READMITTED))

    assert record.counts == (status is RequestStatus.SERVED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attempt": -1}, "attempt -1 is negative"),
        ({"attempt": 1}, "attempt 1 cannot have the status served"),
        ({"status": RequestStatus.READMITTED}, "attempt 0 cannot have the status readmitted"),
        ({"block_tokens": 0}, "block_tokens 0 is not positive"),
        ({"block_hashes": (1, 2, 3)}, "3 blocks of 16 tokens are more than the prompt's 40 tokens"),
        ({"external_reason": ExternalReason.NOT_REPORTED}, "0 external tokens with the reason"),
        ({"tokens": TokenSplit(prompt=40, external=40)}, "40 external tokens with the reason None"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_by_name(change, words):
    """The message says what contradicts what, of which request of which engine."""
    with pytest.raises(BadInput, match=words) as refused:
        replace(RECORD, **change)

    assert refused.value.where == "request r1 of engine ns/chat/pod-0/0"
