"""Which blocks an engine holds: against recorded engines, and through losses, clears and restarts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.vllm.events import BlocksCleared, BlocksStored, ChangeBatch, decode_events
from exporters.vllm.residency import Residency
from tests.cache_changes import apply, blocks, removed, stored
from tests.captured import event_payloads, expected
from tierscope.domain.events import BlockAction, EvictionReason
from tierscope.domain.tiers import Tier

ROOM_WAS_NEEDED = (EvictionReason.CAPACITY, EvictionReason.DEMOTED)
TIERS = {"GPU": Tier.L0, "CPU": Tier.L1, "STORAGE": Tier.L2}


@pytest.fixture
def residency():
    return Residency(holder="ns/chat/pod-0/0", where="events of pod-0")


@pytest.mark.parametrize(
    ("run", "path"),
    [
        ("run-a-prefix-cache", "kv_events.jsonl"),
        ("run-b-offload-tiers", "kv_events.jsonl"),
    ],
)
def test_a_recorded_engine_ends_where_it_really_ended(captures, residency, run, path):
    """Stored and removed copies by tier are what was counted there; the clear takes what was left."""
    told = expected(captures / "vllm" / run)["kv_events"][path]
    peak = Counter()
    live_before_clear = {}
    events = []
    for payload in event_payloads(captures / "vllm" / run / path):
        batch = decode_events(payload, where="capture")
        if BlocksCleared() in batch.changes:
            live_before_clear = {medium: residency.resident(tier) for medium, tier in TIERS.items()}
        found, oddities = residency.apply(batch)
        events += found
        assert not oddities
        for medium, tier in TIERS.items():
            peak[medium] = max(peak[medium], residency.resident(tier) or 0)

    counted = blocks(events)
    counts = told["counts"]
    for medium, tier in TIERS.items():
        stored_key, removed_key = (f"{name}:{medium}:hashes" for name in ("BlockStored", "BlockRemoved"))
        assert counted[tier, BlockAction.STORED, None] == counts.get(stored_key, 0)
        left = [counted[tier, BlockAction.EVICTED, reason] for reason in ROOM_WAS_NEEDED]
        assert sum(left) == counts.get(removed_key, 0)
    cleared = counted[Tier.L0, BlockAction.EVICTED, EvictionReason.CLEAR]
    assert cleared == told["live_hashes_by_medium_just_before_AllBlocksCleared"]["GPU"] == 62
    assert {m: n for m, n in live_before_clear.items() if n} == told[
        "live_hashes_by_medium_just_before_AllBlocksCleared"
    ]
    assert {medium: n for medium, n in peak.items() if n} == told["peak_live_hashes_by_medium"]
    assert residency.resident(Tier.L0) == 0
    assert not residency.stale


def test_reused_blocks_that_are_announced_again_are_not_stored_again(captures, residency):
    """Two of four equal prompts were sent in full report mode: 30 hashes announced, 20 blocks there."""
    for payload in event_payloads(captures / "vllm" / "run-c-data-parallel" / "kv_events.jsonl"):
        residency.apply(decode_events(payload, where="capture"))

    assert residency.resident(Tier.L0) == 20


def test_neighbouring_removals_become_one_event(residency):
    """Engines send one removal a block; a store in between parts them, so that the order stays."""
    apply(residency, stored(1), stored(2, parent=1), stored(3, parent=2))

    events, _ = apply(residency, removed(3), removed(2), stored(4, parent=1), removed(1))

    assert [(event.action, event.block_hashes) for event in events] == [
        (BlockAction.EVICTED, (3, 2)),
        (BlockAction.STORED, (4,)),
        (BlockAction.EVICTED, (1,)),
    ]


def test_a_clear_evicts_every_copy_with_its_reason(residency):
    """UD-32: a thousand blocks stored and cleared are a thousand evictions, and nothing is left."""
    apply(residency, stored(*range(1000)))

    events, _ = apply(residency, BlocksCleared())

    assert blocks(events) == {(Tier.L0, BlockAction.EVICTED, EvictionReason.CLEAR): 1000}
    assert residency.resident(Tier.L0) == 0


def test_a_clear_leaves_host_memory_unsure_and_storage_as_it_was(residency):
    """The event does not say whether host memory was emptied too; files stay."""
    apply(residency, stored(1), stored(1, medium="CPU"), stored(1, medium="FS"))

    apply(residency, BlocksCleared())

    assert residency.resident(Tier.L1) is None
    assert residency.resident(Tier.L2) == 1


def test_a_restart_evicts_what_was_in_memory(residency):
    """The new process begins empty and sends no event about it; files are still there.

    We see it when the new process speaks, perhaps after its first events: the loss was before them.
    """
    apply(residency, stored(1, 2), stored(1, medium="CPU"), stored(1, medium="STORAGE"))

    events = residency.restart(20.0)

    assert blocks(events) == {
        (Tier.L0, BlockAction.EVICTED, EvictionReason.RESTART): 2,
        (Tier.L1, BlockAction.EVICTED, EvictionReason.RESTART): 1,
    }
    assert {event.at_unix_seconds for event in events} == {10.0}
    assert [residency.resident(tier) for tier in Tier] == [0, 0, 1]


def test_after_a_loss_nothing_is_known_until_a_clear_or_a_restart(residency):
    """Lost events make residency absent, not wrong; what is told afterwards is still counted."""
    apply(residency, stored(1))
    residency.lost()
    assert residency.stale
    assert residency.resident(Tier.L0) is None

    events, oddities = apply(residency, removed(1), stored(2))
    assert len(events) == 2
    assert not oddities, "a removal of something lost is no surprise"

    apply(residency, BlocksCleared(), stored(3))
    assert not residency.stale
    assert residency.resident(Tier.L0) == 1


def test_a_removal_of_a_block_never_seen_is_counted_and_named(residency):
    """Residency does not go negative; the eviction is real and is handed on."""
    events, oddities = apply(residency, removed(9))

    assert blocks(events) == {(Tier.L0, BlockAction.EVICTED, EvictionReason.CAPACITY): 1}
    assert oddities == ["removal of a block never seen stored"]
    apply(residency, stored(9))
    assert residency.resident(Tier.L0) == 1


def test_media_become_tiers_and_an_unknown_one_is_counted(residency):
    """UD-35: CPU and cpu are one tier; blocks of a medium nobody knows are in no tier, but counted."""
    _, oddities = apply(
        residency,
        stored(1, medium="CPU"),
        stored(2, medium="cpu"),
        stored(3, 4, medium="tape"),
        stored(5, medium=None),
    )

    assert residency.resident(Tier.L1) == 2
    assert oddities == ["medium tape", "medium none"]


def test_cache_groups_count_apart(residency):
    """Hybrid models keep a block of the same hash in each group."""
    apply(residency, stored(1, group=0), stored(1, group=1))
    apply(residency, removed(1, group=0))

    assert residency.resident(Tier.L0) == 1


def test_nothing_said_is_not_nothing_there(residency):
    """An engine without a host tier has no L1, which is not an empty one."""
    apply(residency, stored(1))

    assert residency.resident(Tier.L1) is None


def test_a_block_that_a_lower_tier_holds_is_demoted_not_evicted(residency):
    """UD-40: the GPU lets go of two blocks, of which host memory has one."""
    apply(residency, stored(1), stored(2, parent=1), stored(1, medium="CPU"))

    events, _ = apply(residency, removed(2), removed(1))

    assert [(event.reason, event.block_hashes) for event in events] == [
        (EvictionReason.CAPACITY, (2,)),
        (EvictionReason.DEMOTED, (1,)),
    ]


def test_a_block_stored_below_in_the_same_batch_is_demoted(residency):
    """UD-40: engines tell of the GPU first and of the connector after it; the batch is one moment."""
    apply(residency, stored(1))

    events, _ = apply(residency, removed(1), stored(1, medium="CPU"))

    assert events[0].reason is EvictionReason.DEMOTED


def test_host_memory_demotes_to_storage_and_storage_to_nothing(residency):
    """Only a tier further down keeps a block; the GPU's copy of it does not."""
    apply(residency, stored(1, 2), stored(1, 2, medium="CPU"), stored(1, medium="FS"))

    events, _ = apply(residency, removed(1, 2, medium="CPU"), removed(1, medium="FS"))

    assert [(event.tier, event.reason, event.block_hashes) for event in events] == [
        (Tier.L1, EvictionReason.CAPACITY, (2,)),
        (Tier.L1, EvictionReason.DEMOTED, (1,)),
        (Tier.L2, EvictionReason.CAPACITY, (1,)),
    ]


def test_the_age_of_evicted_blocks_is_counted_by_tier(residency):
    """UD-40: a block stored at 10 s and gone at 25 s was 15 s old; what a clear took says nothing of room."""
    residency.apply(ChangeBatch(10.0, (stored(1, 2, 3), stored(1, medium="CPU")), 0))
    residency.apply(ChangeBatch(25.0, (removed(1), removed(2)), 0))
    residency.apply(ChangeBatch(40.0, (BlocksCleared(), removed(1, medium="CPU")), 0))

    ages = {sample.labels[0]: sample.value for sample in residency.samples()}

    assert set(ages) == {"l0"}, "what host memory holds after a clear is not known"
    assert (sum(ages["l0"].counts), ages["l0"].sum) == (2, 30.0)


def test_a_partial_block_is_not_counted_as_a_whole_one(residency):
    """UD-34: a chunk of 4 tokens among chunks of 16 holds no whole block."""
    apply(residency, stored(1, 2, medium="CPU"), BlocksStored((3,), "CPU", 0, 2, 4))
    assert residency.resident(Tier.L1) == 2

    apply(residency, removed(3, medium="CPU"), removed(1, medium="CPU"))

    assert residency.resident(Tier.L1) == 1


def test_a_tier_that_only_grows_does_not_fill_our_memory():
    """Storage never announces a removal: beyond a bound it is absent, and said to be."""
    residency = Residency("ns/chat/pod-0/0", "events", most_blocks=100)

    events, oddities = apply(residency, *(stored(n, medium="STORAGE") for n in range(1000)), stored(1))

    assert len(events) == 1001, "what happens is still told"
    assert oddities == ["tier too large to follow"]
    assert residency.held(Tier.L2) is None
    assert residency.resident(Tier.L0) == 1
    assert sum(map(len, residency._pools.values())) <= 101


def test_every_event_says_where_it_stands_in_its_stream():
    """The batch's number and the change's place in it, the same whatever was known before the batch."""
    changes = (stored(1, 2), removed(8), removed(1), stored(3, parent=2))
    knowing, ignorant = Residency("h", "a"), Residency("h", "b")
    apply(knowing, stored(1, 2), stored(8), stored(1, medium="CPU"))

    told = [
        {(event.sequence, event.ordinal) for event in residency.apply(ChangeBatch(1.0, changes, 0), 7)[0]}
        for residency in (knowing, ignorant)
    ]

    assert told[1] == {(7, 0), (7, 1), (7, 2)}
    assert told[0] == {(7, 1), (7, 2)}, "the first store was only told again"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.integers(0, 5)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("clear"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=40,
)


@given(steps=steps)
def test_stored_minus_evicted_copies_is_what_is_there(steps):
    """Whatever an engine does, the events balance with the copies it holds."""
    residency = Residency("holder", "test")
    copies = Counter()
    events = []
    for step, block in steps:
        if step == "store":
            copies[block] += 1
            events += apply(residency, stored(block, parent=99))[0]
        elif step == "remove" and copies[block]:
            copies[block] -= 1
            events += apply(residency, removed(block))[0]
        elif step == "clear":
            copies.clear()
            events += apply(residency, BlocksCleared())[0]
        elif step == "restart":
            copies.clear()
            events += residency.restart(1.0)

    balance = sum(
        len(event.block_hashes) * (1 if event.action is BlockAction.STORED else -1) for event in events
    )
    assert balance == copies.total()
    assert (residency.resident(Tier.L0) or 0) == len(+copies)
