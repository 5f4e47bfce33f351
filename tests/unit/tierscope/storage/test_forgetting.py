"""What is forgotten is gone from every table, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import ENGINES, START, admission, batch, chain_of
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import BadInput
from tierscope.domain.events import (
    BlockAction,
    BlockEvent,
    CounterState,
    EngineTokens,
    EvictionReason,
    TierActivity,
    TierSample,
    TierTransfer,
    TransferAction,
)
from tierscope.domain.identity import EngineId
from tierscope.domain.selection import Selection
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.storage.retention import Keeping
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)
OTHER = EngineId("prod", "code", "code-0", 0)
SECRET = 77


def told_by(holder):
    """What a cache tells of its L1 and L2, in an engine's process or in a pod of its own."""
    return [
        row
        for tier in (Tier.L1, Tier.L2)
        for row in (
            TierSample(tier, holder, START, used_bytes=3.0),
            TierActivity(tier, holder, START, START + 5, 1, 2, total=CounterState(START, (10, 20))),
            TierTransfer(tier, holder, TransferAction.LOAD, START + 1, moved_blocks=2),
            BlockEvent(tier, holder, BlockAction.STORED, chain_of("xyz"), START + 2),
            BlockEvent(tier, holder, BlockAction.STORED, chain_of("xyz"), START - 7200),
        )
    ]


@pytest.fixture
def store(places):
    """Tenant 77 introduced a prefix that others go on from, and has blocks of its own."""
    with Store.open(*places(), clock=lambda: START) as store:
        mine = replace(admission("abcd", name="mine", session=5), salt_hash=SECRET)
        again = replace(admission("abcdxy", name="mine again", at=START + 1), salt_hash=SECRET, model="lora")
        evicted = BlockEvent(
            Tier.L0, str(ENGINES[0]), BlockAction.EVICTED, chain_of("abcdxy"), START + 9,
            reason=EvictionReason.CAPACITY, parent_hash=chain_of("abcdxy")[-1],
        )  # fmt: skip
        store.append(
            batch(
                0,
                mine,
                admission("abce", name="child", at=START + 2),
                admission("abcef", name="grandchild", at=START + 3),
                again,
                admission("xyz", name="elsewhere", engine=OTHER),
                evicted,
                TierSample(Tier.L0, str(OTHER), START, used_blocks=3),
                *told_by(str(OTHER)),
                EngineTokens(OTHER, "model", START, START + 5, admission("xyz").tokens),
            )
        )
        store.record_deployment(Deployment("prod", "code", "model", 1))
        yield store


def ask(store, sql):
    with store._database.reading() as cursor:
        return cursor.execute(sql).fetchall()


def chains(store):
    """Each admission's chain, by its name."""
    return dict(
        ask(
            store,
            "SELECT request_id, list(block_hash ORDER BY position) FROM block_accesses "
            "JOIN requests ON requests.id = request GROUP BY request_id",
        )
    )


def test_a_tenants_rows_go_and_the_chains_that_began_with_them_stay(store):
    """Others' chains read as before, in SQL and as arrays, and the tenant is in no row."""
    before = chains(store)

    deleted = store.forget(Selection(salt_hash=SECRET))

    assert deleted == {"requests": 2}
    assert chains(store) == {k: v for k, v in before.items() if not k.startswith("mine")}
    assert store.reader().window("prod", "chat", ALL_TIME).accesses == 4 + 5
    assert ask(store, f"SELECT count(*) FROM requests WHERE salt_hash = {SECRET}") == [(0,)]


def test_hashes_that_only_the_tenant_used_are_in_no_row(store):
    """Block events keep how many blocks they were about and lose the hashes nobody else can name."""
    store.forget(Selection(salt_hash=SECRET))

    events = ask(store, "SELECT blocks, block_hashes, parent_hash FROM block_events WHERE tier = 'l0'")
    assert events == [(6, list(chain_of("abc")), None)]
    own = set(chain_of("abcdxy")) - set(chain_of("abcef"))
    for (hashes,) in ask(store, "SELECT new_hashes FROM requests"):
        assert own.isdisjoint(hashes)


def test_what_comes_after_does_not_point_to_what_is_gone(store):
    """The memory of chains forgets too."""
    store.forget(Selection(salt_hash=SECRET))

    store.append(batch(1, admission("abcdxyz", name="later", at=START + 20)))

    assert chains(store)["later"] == list(chain_of("abcdxyz"))


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(model="lora"), {"mine", "child", "grandchild", "elsewhere"}),
        (Selection(session_hash=5), {"child", "grandchild", "mine again", "elsewhere"}),
        (Selection(namespace="prod", endpoint="chat"), {"elsewhere"}),
        (Selection(namespace="prod"), set()),
        (Selection(model="model", salt_hash=SECRET), {"child", "grandchild", "mine again", "elsewhere"}),
        (Selection(namespace="dev"), {"mine", "child", "grandchild", "mine again", "elsewhere"}),
    ],
)
def test_every_part_that_is_given_must_hold(store, selection, left):
    """An endpoint, a model, a session, or several of them together."""
    store.forget(selection)

    assert {name for (name,) in ask(store, "SELECT request_id FROM requests")} == left
    assert set(chains(store)) == left


def test_an_endpoint_leaves_nothing_but_positions(store):
    """Its deployment, readings and counters go too; what was heard of the feeds stays."""
    store.forget(Selection(namespace="prod"))

    counts = store.reader().row_counts()
    assert {table: rows for table, rows in counts.items() if rows} == {
        "coverage": 1,
        "feed_positions": 1,
        "schema_version": 1,
    }


def test_what_a_cache_server_tells_is_not_the_endpoints(store):
    """It may serve others: a pod whose name begins like an endpoint's, and an endpoint of another name."""
    kept = ("prod/code", "prod/code-lmcache-0", str(replace(OTHER, endpoint="code-2")))
    store.append(batch(1, *(entry for holder in kept for entry in told_by(holder))))

    store.forget(Selection(namespace="prod", endpoint="code"))

    for table in ("tier_samples", "tier_activity", "tier_transfers", "block_events"):
        holders = {name for (name,) in ask(store, f"SELECT DISTINCT holder FROM {table}")}
        assert holders - {str(ENGINES[0])} == set(kept)
    assert {name for (name,) in ask(store, "SELECT owner FROM counter_states")} == set(kept)


def test_an_engines_sums_of_every_tier_go_with_it(store):
    """Also of hours whose events are gone."""
    store.retain(Keeping(raw_seconds=3600, hourly_seconds=86400))
    assert ask(store, "SELECT count(*) FROM hourly_blocks") == [(2,)]

    store.forget(Selection(namespace="prod", endpoint="code"))

    assert ask(store, "SELECT count(*) FROM hourly_blocks") == [(0,)]


def test_forgetting_nobody_is_refused():
    """An empty selection would mean everything."""
    with pytest.raises(BadInput, match="nothing says"):
        Selection()
    with pytest.raises(BadInput, match="without its namespace"):
        Selection(endpoint="chat")
