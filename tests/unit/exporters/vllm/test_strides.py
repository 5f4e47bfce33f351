"""UD-34: blocks of host memory whose events never come, and blocks that are none of the size they seem."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm import strides as module
from exporters.vllm.event_stream import EventStream
from exporters.vllm.events import BlocksCleared, BlocksStored, decode_events
from exporters.vllm.residency import Residency
from exporters.vllm.strides import Strides
from tests.cache_changes import apply, removed, stored
from tests.captured import ENGINE, event_payloads
from tierscope.domain.tiers import Tier

CHAINS = range(0, 400, 100)
BLOCKS = 40
MISSING = "l1_events_leave_out_blocks"


def chain(first):
    """A prompt's blocks in the GPU, each after the one before it."""
    return stored(*range(first + 1, first + 1 + BLOCKS))


def told(first, stride, phase=0, **fields):
    """Every n-th block of it, announced by its own name and the one before it."""
    return [
        stored(block, parent=block - 1, medium="CPU", **fields)
        for block in range(first + 1 + phase, first + 1 + BLOCKS, stride)
    ]


@pytest.fixture
def residency():
    """Of an engine that was heard from its beginning."""
    found = Residency("ns/chat/pod-0/0", "events of pod-0")
    found.began(0.0)
    return found


def kinds(residency):
    return [finding.kind for finding in residency.findings()]


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("stride", [2, 4, 8])
def test_blocks_of_which_every_nth_is_told_are_flagged(residency, stride, phase):
    """UD-34: ranks that hold the same heads store in turn, and one of them is heard."""
    for first in CHAINS:
        apply(residency, chain(first), *told(first, stride, phase))

    (finding,) = residency.findings()
    assert finding.kind == MISSING
    assert f"every {'second' if stride == 2 else f'{stride}th'} block" in finding.error.what
    assert residency.held(Tier.L1) is None, "neither how many there are nor how many are orphans is known"
    assert residency.resident(Tier.L0) == len(CHAINS) * BLOCKS


def test_blocks_that_are_stored_again_are_judged_once(residency):
    """A working set that host memory let go of comes again, and every second block is still left out."""
    for _ in range(3):
        for first in CHAINS:
            blocks = told(first, 2)
            apply(residency, chain(first), *blocks)
            apply(residency, *(removed(*block.block_hashes, medium="CPU") for block in blocks))

    assert kinds(residency) == [MISSING]
    assert residency.held(Tier.L1) is None


def test_a_stride_inside_one_announcement_is_seen_too(residency):
    """Nothing in it says that the blocks are not neighbours; the GPU's chain does."""
    for first in CHAINS:
        apply(residency, chain(first), stored(*range(first + 2, first + BLOCKS, 2), medium="CPU"))

    assert kinds(residency) == [MISSING]


def test_blocks_that_are_told_later_leave_no_hole(residency):
    """Ranks end their stores in any order: second blocks first, the others after them."""
    for first in CHAINS:
        apply(residency, chain(first), *told(first, 2, phase=1))
    assert kinds(residency) == [MISSING]

    for first in CHAINS:
        apply(residency, *told(first, 2))

    assert kinds(residency) == []
    assert residency.resident(Tier.L1) == len(CHAINS) * BLOCKS


@given(st.permutations(range(1, BLOCKS + 1)))
def test_whatever_the_order_a_chain_told_whole_has_no_hole(order):
    """Every hole is filled by its blocks."""
    strides = Strides()
    parents = {block: block - 1 for block in range(2, BLOCKS + 1)}

    for block in order:
        strides.look((block,), parents.get)

    assert strides.seen[0] == 0


def test_a_stride_is_told_of_the_blocks_that_are_remembered(monkeypatch):
    """However many came before: an upgrade mended it, or it began with one. Holes go with their blocks."""
    monkeypatch.setattr(module, "MOST_BLOCKS", 100)
    strides, parents = Strides(), {block: block - 1 for block in range(2, 4000)}

    for stride, begin, expected in ((2, 2, 2), (1, 1000, None), (2, 2000, 2)):
        for block in range(begin, begin + 900, stride):
            strides.look((block,), parents.get)
        assert strides.stride == expected
        assert strides.seen[1] <= 100
    assert max(map(len, (strides._told, strides._holes))) <= 100


def test_what_room_took_is_no_stride(residency):
    """Host memory that lets go of blocks told of them before: they are orphans' ancestors, and counted."""
    for first in CHAINS:
        apply(residency, chain(first), *told(first, 1))
        apply(residency, *(removed(first + n, medium="CPU") for n in range(1, BLOCKS, 2)))

    assert kinds(residency) == []
    assert residency.held(Tier.L1).orphans > 0


def test_what_others_stored_is_no_stride(residency):
    """A conversation goes on that host memory got from elsewhere: all of its beginning was never told."""
    for first in range(0, 4000, 100):
        apply(residency, chain(first), *told(first, 1, phase=BLOCKS - 2))

    assert kinds(residency) == []


def test_a_store_that_was_refused_now_and_then_is_no_stride(residency):
    """Two blocks of forty had no room: the others are told, and those behind the hole are orphans."""
    for first in range(0, 2000, 100):
        blocks = told(first, 1)
        apply(residency, chain(first), *blocks[:10], *blocks[12:])

    assert kinds(residency) == []
    assert residency.held(Tier.L1).orphans > 0


@pytest.mark.parametrize("size", [0, 64])
def test_chunks_of_several_blocks_are_no_stride(residency, size):
    """UD-34: a chunk of four blocks is named by its last one; of its own size, or of none that is said."""
    for first in CHAINS:
        apply(residency, chain(first), *told(first, 4, phase=3, tokens=size))

    assert kinds(residency) == []
    assert residency.resident(Tier.L1) == len(CHAINS) * BLOCKS / 4


def test_a_stream_that_was_not_heard_from_its_beginning_is_not_judged():
    """Nor one with a gap, nor after a clear: what was told then is not known."""
    late, lossy, cleared = (Residency("e", "events") for _ in range(3))
    lossy.began(0.0)
    lossy.lost()
    cleared.began(0.0)
    apply(cleared, stored(9, medium="CPU"), BlocksCleared())

    for residency in (late, lossy, cleared):
        for first in CHAINS:
            apply(residency, chain(first), *told(first, 2))
        assert kinds(residency) == []


def test_an_engine_that_begins_anew_is_judged_anew(residency):
    """An upgrade of the engine is what mends it."""
    for first in CHAINS:
        apply(residency, chain(first), *told(first, 2))

    residency.restart(9.0)
    apply(residency, chain(0), *told(0, 1))

    assert kinds(residency) == []
    assert residency.resident(Tier.L1) == BLOCKS


def recorded_changes(captures):
    """What an engine with a host tier told before a clear, after which nothing of that tier is known."""
    for payload in event_payloads(captures / "vllm" / "run-b-offload-tiers" / "kv_events.jsonl"):
        changes = decode_events(payload, where="capture").changes
        if BlocksCleared() in changes:
            return
        yield from changes


def test_a_recorded_engine_leaves_out_nothing(captures, residency):
    """It tells whole chains of its host memory, block by block."""
    for change in recorded_changes(captures):
        apply(residency, change)

    assert kinds(residency) == []
    assert residency._strides.seen == (0, 210)


def test_a_recorded_engine_of_which_every_second_block_is_not_told_is_flagged(captures, residency):
    """As if two ranks had stored in turn, and only one of them been heard."""
    place = {}
    for change in recorded_changes(captures):
        if isinstance(change, BlocksStored):
            before = change.parent_hash
            for block in change.block_hashes:
                place[block], before = place.get(before, -1) + 1, block
        if getattr(change, "medium", None) != "CPU" or place[change.block_hashes[-1]] % 2:
            apply(residency, change)

    assert kinds(residency) == [MISSING]


@pytest.mark.parametrize("sizes", [(4, 16), (16, 4)])
def test_a_partial_chunk_is_none_whether_it_comes_first_or_last(sizes):
    """UD-34: one chunk of 4 tokens and one of 16 are one whole chunk, which of them came first or not."""
    residency = Residency("e", "events")
    for number, size in enumerate(sizes):
        apply(residency, BlocksStored((number,), "CPU", 0, None, size))

    assert residency.held(Tier.L1).distinct == 1
    assert residency.held(Tier.L1).block_tokens == 16


def test_decoded_events_lead_to_the_finding():
    """Through the wire: arrays as engines up to 0.23 send them."""
    stream = EventStream(Residency(str(ENGINE), "events"), 0, where="events")
    whole = ["BlockStored", list(range(1, BLOCKS + 1)), None, [], 16, None, "GPU"]
    parts = [["BlockStored", [n], n - 1, [], 16, None, "CPU"] for n in range(2, BLOCKS + 1, 2)]

    stream.message(msgspec.msgpack.encode([1.0, [whole, *parts], 0]), 0)

    assert [finding.kind for finding in stream.findings] == [MISSING]
