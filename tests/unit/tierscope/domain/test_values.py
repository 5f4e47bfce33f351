"""Identities, units, coverage, positions and traces: small promises of the shared types."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierscope.domain.batch import FeedGap, FeedPosition
from tierscope.domain.deployment import Deployment, TierConfig
from tierscope.domain.errors import BadInput
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import EngineId, SourceId, SourceKind
from tierscope.domain.tiers import Origin, Tier
from tierscope.domain.trace import Trace
from tierscope.domain.units import BLOCK_HASH_MASK, block_hash_of_bytes, format_bytes, format_seconds
from tierscope.domain.window import RequestWindow, TimeSpan

names = st.text(st.characters(codec="ascii", exclude_characters="/\n\r"), min_size=1)
engines = st.builds(EngineId, names, names, names, st.integers(0, 63))


@given(engines)
def test_an_engine_is_read_back_from_its_text(engine):
    """Labels, log lines and the store carry an engine as text and lose nothing."""
    assert EngineId.parse(str(engine)) == engine


@given(st.sampled_from(SourceKind), engines)
def test_a_source_is_read_back_from_its_text_whatever_its_owner(kind, owner):
    """An owner may hold colons and slashes: only the first colon parts."""
    source = SourceId(kind, f"{owner}:8080")

    assert SourceId.parse(str(source)) == source


@pytest.mark.parametrize("text", ["", "ns/chat", "ns/chat/pod/zero", "a/b/c/1/d"])
def test_other_text_is_no_engine(text):
    """What `str()` did not write is refused."""
    with pytest.raises(ValueError, match=r".+"):
        EngineId.parse(text)


def test_every_tier_is_an_origin_and_two_origins_are_no_tier():
    """A token comes from a tier, from an unknown one, or is computed."""
    assert {str(origin) for origin in Origin} == {str(tier) for tier in Tier} | {"external", "computed"}


@given(st.binary(min_size=8, max_size=64))
def test_a_block_hash_is_the_low_64_bits_of_the_digest(digest):
    """Engines that publish digests and engines that publish integers give one hash."""
    assert block_hash_of_bytes(digest) == int.from_bytes(digest, "big") & BLOCK_HASH_MASK


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (-2048, "-2.0 KiB"),
        (3 * 2**30, "3.0 GiB"),
        (5e15, "4547.5 TiB"),
    ],
)
def test_sizes_are_printed_in_binary_units(size_bytes, text):
    """The largest unit that leaves at least 1, up to TiB."""
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 ms"), (0.0123, "12.3 ms"), (1, "1.0 s"), (75, "75.0 s")]
)
def test_durations_are_printed_in_milliseconds_below_one_second(seconds, text):
    """People compare loads in milliseconds and TTFT in seconds."""
    assert format_seconds(seconds) == text


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_completeness_is_the_share_received_and_absent_before_anything_was_due(
    received, missing, undecodable
):
    """Missing and undecodable units both count against it; nothing due is not completeness 0 or 1."""
    coverage = SourceCoverage(
        SourceId(SourceKind.FEED, "node-1"), 7, 0.0, 1.0, received, missing, undecodable=undecodable
    )

    due = received + missing + undecodable
    assert coverage.completeness_ratio == (received / due if due else None)


def test_a_gap_counts_both_ends():
    """Batches 4 to 6 are three batches."""
    assert FeedGap("node-1", 7, first_sequence=4, last_sequence=6).batches == 3


def test_positions_of_one_incarnation_are_ordered_by_sequence():
    """The store compares positions to drop what it already has."""
    assert FeedPosition("node-1", 7, 41) < FeedPosition("node-1", 7, 42)


def test_a_deployment_without_a_tier_says_none():
    """No L2 is not an L2 of size 0."""
    deployment = Deployment("ns", "chat", "m", replicas=2, tiers=(TierConfig(Tier.L1, 2.0**30),))

    assert deployment.tier(Tier.L1) == TierConfig(Tier.L1, 2.0**30)
    assert deployment.tier(Tier.L2) is None


def ints(*values: int, kind=np.int64):
    """A small integer array."""
    return np.array(values, dtype=kind)


def trace(**change) -> Trace:
    """Two requests over three blocks, with a change."""
    arrays = {
        "at_ms": ints(0, 5),
        "input_tokens": ints(1024, 600),
        "output_tokens": ints(1, 1),
        "session": ints(-1, -1, kind=np.int32),
        "offsets": ints(0, 2, 4),
        "block_ids": ints(0, 1, 0, 2, kind=np.int32),
    }
    return Trace(name="two", block_tokens=512, **{**arrays, **change})


def test_a_trace_counts_requests_and_accesses():
    """An access is a block of a request, shared or not."""
    assert (trace().requests, trace().accesses) == (2, 4)


@pytest.mark.parametrize(
    "change", [{"at_ms": ints(0)}, {"offsets": ints(0, 4)}, {"offsets": ints(0, 2, 3)}, {"session": ints(-1)}]
)
def test_a_trace_whose_arrays_disagree_is_refused(change):
    """Lengths that do not fit are found when the trace is built, not in a kernel."""
    with pytest.raises(BadInput, match="disagree"):
        trace(**change)


def test_a_windows_totals_are_the_sum_of_its_requests():
    """Sums of columns are one conserved split."""
    nan = np.full(2, np.nan)
    window = RequestWindow(
        span=TimeSpan(10.0, 70.0),
        engines=(EngineId("ns", "chat", "pod-0"),),
        models=("m",),
        block_tokens=16,
        chunk_tokens=None,
        at_unix_seconds=np.array([11.0, 12.0]),
        engine=ints(0, 0, kind=np.int32),
        model=ints(0, 0, kind=np.int32),
        session=ints(0, 0, kind=np.uint64),
        prompt=ints(40, 20),
        l0=ints(16, 0),
        l1=ints(8, 0),
        l2=ints(0, 4),
        external=ints(0, 0),
        computed=ints(16, 16),
        queue_seconds=nan,
        load_seconds=nan,
        ttft_seconds=nan,
        offsets=ints(0, 2, 3),
        block_hashes=ints(1, 2, 1, kind=np.uint64),
    )

    assert window.totals().as_dict() == {
        "prompt": 60, "l0": 16, "l1": 8, "l2": 4, "external": 0, "computed": 32,
    }  # fmt: skip
    assert (window.requests, window.accesses, window.span.seconds) == (2, 3, 60.0)


@pytest.mark.parametrize(
    ("replica", "workload"),
    [
        ("chat-7d9f8b6c5d-x2kqz", "chat"),
        ("chat-canary-5b6c7d8f9-bbrm2", "chat-canary"),
        ("llama-3-1-0", "llama-3-1"),
        ("vllm-12", "vllm"),
        ("node-cache-9zfkw", "node-cache"),
        ("east", ""),
        ("replica-a", ""),
    ],
)
def test_a_pods_name_tells_its_workload(replica, workload):
    """Of a Deployment, a StatefulSet, a DaemonSet; a name of another kind tells none."""
    assert EngineId("ns", "chat", replica).workload == workload
