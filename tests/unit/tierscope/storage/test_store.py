"""A store keeps each batch exactly once and says what it could not keep."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed_event

from tests.ledgers import ENGINES, START, Ledger, admission, batch
from tierscope.domain.batch import FeedGap, FeedPosition
from tierscope.domain.deployment import Deployment, DeploymentSince, Objective, RoutingPolicy, TierConfig
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason, SourceCoverage, TierSample
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.pool import PoolFiles, PoolTraffic, Viewpoint
from tierscope.domain.requests import RequestStatus
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.domain.wiring import PoolWiring, Wiring
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, 1e11)


@pytest.fixture
def store(places):
    with Store.open(*places(), clock=lambda: START + 1e6) as store:
        yield store


def totals(store):
    return store.reader().totals("prod", "chat", ALL_TIME).tokens


def feed_coverage(store):
    """(received, missing, restarts) a feed."""
    found = store.reader().coverage(ALL_TIME)
    return {c.source.owner: (c.received, c.missing, c.restarts) for c in found if c.source.kind == "feed"}


@pytest.mark.lake
def test_a_batch_that_comes_twice_counts_once(store):
    """What a feed replays after a crash is not doubled."""
    one = batch(0, admission("abc"))
    store.append(one)

    again = store.append([one, batch(1, admission("abd", name="other"))])

    assert again.repeated_batches == 1
    assert store.reader().row_counts()["requests"] == 2
    assert feed_coverage(store) == {"node-1": (2, 0, 0)}


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 25), max_size=6), seed=st.integers(0, 3))
def test_however_a_feed_is_cut_and_repeated_the_store_is_the_same(places, cuts, seed):
    """Any split into appends, with any of it repeated, gives what one orderly append gives."""
    batches = Ledger(seed).batches(25)
    with Store.open(*places(), clock=lambda: START) as orderly:
        orderly.append(batches)
        expected = (totals(orderly), orderly.reader().row_counts(), orderly.reader().coverage(ALL_TIME))

    with Store.open(*places(), clock=lambda: START) as cut:
        for end in [*sorted(cuts), 25]:
            position = cut.position("node-1")
            stored = position.sequence + 1 if position else 0
            cut.append(batches[stored // 2 : end])

        assert (totals(cut), cut.reader().row_counts(), cut.reader().coverage(ALL_TIME)) == expected


def test_the_position_is_that_of_the_last_batch(store):
    """A collector goes on from here."""
    assert store.position("node-1") is None

    store.append([batch(0), batch(1)])

    assert store.position("node-1") == FeedPosition("node-1", 7, 1)
    assert store.position("node-2") is None


def test_the_position_is_read_back_after_a_restart(places):
    """Positions of every exporter are in the file."""
    place = places()
    with Store.open(*place, clock=lambda: START) as store:
        store.append([batch(3), batch(0, exporter="node-2", incarnation=8)])

    with Store.open(*place, clock=lambda: START) as store:
        assert store.position("node-1") == FeedPosition("node-1", 7, 3)
        assert store.position("node-2") == FeedPosition("node-2", 8, 0)


def test_a_gap_is_coverage_and_moves_the_position(store):
    """What is lost for good is counted exactly, once, and not asked for again."""
    store.append([batch(0), batch(1)])
    gap = FeedGap("node-1", 7, 2, 9)

    store.record_gap(gap)
    store.record_gap(gap)
    store.append([FeedGap("node-1", 7, 5, 11), batch(12)])

    assert feed_coverage(store) == {"node-1": (3, 10, 0)}
    assert store.position("node-1") == FeedPosition("node-1", 7, 12)


def test_a_hole_that_no_one_reported_is_a_gap(store):
    """A sequence that jumps is missing batches, whoever failed to say so."""
    store.append([batch(2), batch(5)])

    assert feed_coverage(store) == {"node-1": (2, 4, 0)}


def test_a_new_incarnation_starts_its_own_sequence(store):
    """An exporter that restarts is read from its start, and the restart is counted."""
    store.append([batch(0), batch(1)])

    store.append([batch(0, admission(), incarnation=1), batch(1, incarnation=1)])

    assert store.position("node-1") == FeedPosition("node-1", 1, 1)
    assert feed_coverage(store) == {"node-1": (4, 0, 1)}
    assert store.reader().row_counts()["requests"] == 1


def test_what_an_earlier_run_of_an_exporter_told_is_not_told_anew(store):
    """An exporter that restarts reads its engines' streams from their start; nothing counts twice."""
    event = BlockEvent(Tier.L0, str(ENGINES[0]), BlockAction.STORED, (1, 2), START)
    store.append(batch(0, admission("abc", shares=[16]), event, event))
    before = (totals(store), store.reader().row_counts()["block_events"])

    store.append(
        batch(0, admission("abc", shares=[16]), event, changed_event(event, block_hashes=(3,)), incarnation=1)
    )

    assert before[0] == totals(store)
    assert (before[1], store.reader().row_counts()["block_events"]) == (2, 3)


def test_an_event_is_known_by_its_place_in_its_stream_whatever_was_told_of_it(store):
    """A run that saw less names fewer blocks and other reasons; the change is stored once all the same."""
    cleared = BlockEvent(
        Tier.L0, str(ENGINES[0]), BlockAction.EVICTED, (1, 2, 3), START,
        reason=EvictionReason.CLEAR, sequence=9, ordinal=0,
    )  # fmt: skip
    gone = changed_event(cleared, ordinal=1, block_hashes=(4,), reason=EvictionReason.CAPACITY)
    below = changed_event(gone, block_hashes=(5,), reason=EvictionReason.DEMOTED)
    store.append(batch(0, cleared, gone, below))

    seen_less = [changed_event(cleared, block_hashes=(3,)), changed_event(gone, block_hashes=(4, 5))]
    another_life = changed_event(cleared, at_unix_seconds=START + 1)
    store.append(batch(0, *seen_less, another_life, incarnation=1))

    assert store.reader().row_counts()["block_events"] == 4


@pytest.mark.parametrize(
    "bad",
    [
        replace(admission("ab", name="bad"), block_hashes=(1, 1 << 64)),
        replace(admission("ab", name="bad"), block_hashes=(-1,)),
        replace(admission("ab", name="bad"), admitted_unix_seconds=float("nan")),
        replace(admission("ab", name="bad"), admitted_unix_seconds=1e300),
        admission("ab", name="bad \udc80"),
    ],
    ids=["hash too large", "hash negative", "time not a number", "time beyond any hour", "name not text"],
)
def test_an_entry_that_fits_no_column_is_refused_by_name(store, bad):
    """The rest of its batch is kept, deltas included, and the feed goes on."""
    result = store.append(batch(0, admission("abc", name="a"), bad, admission("abcd", name="b")))

    assert (result.refused, result.rows["requests"]) == (1, 2)
    assert result.first_refusal.startswith("RequestRecord bad")
    assert store.position("node-1") == FeedPosition("node-1", 7, 0)
    assert store.reader().window("prod", "chat", ALL_TIME).accesses == 7


def test_entries_of_any_kind_can_be_refused(store):
    """A reading or an interval without a time is left out, and no other."""
    hook = SourceId(SourceKind.VLLM_HOOK, str(ENGINES[0]))
    nan = float("nan")
    result = store.append(
        batch(
            0,
            TierSample(Tier.L1, "lmcache", nan),
            TierSample(Tier.L1, "lmcache", START),
            SourceCoverage(hook, 0, nan, nan, 1, 0),
            SourceCoverage(hook, 1 << 70, START, START, 1, 0),
            SourceCoverage(hook, 0, START, START, 5, 0),
        )
    )

    assert result.refused == 3
    assert result.rows == {"tier_samples": 1, "coverage": 2}


@pytest.mark.parametrize("places", ["file"], indirect=True)
def test_complete_intervals_of_a_minute_are_one_row(store):
    """Coverage that is told every few seconds does not outgrow what it is about."""
    hook = SourceId(SourceKind.VLLM_HOOK, str(ENGINES[0]))
    minute = START // 60 * 60

    def interval(second, missing=0):
        at = minute + second
        return SourceCoverage(
            hook, 0, at, at + 5, 1, missing, first_sequence=second, last_sequence=second + 4
        )

    for n, second in enumerate(range(0, 120, 5)):
        store.append(batch(n, interval(second, missing=int(second == 30)), at=minute + second))

    with store._database.reading() as cursor:
        rows = cursor.execute(
            "SELECT since_unix_seconds, received, missing, first_sequence, last_sequence FROM coverage "
            "WHERE kind = 'vllm_hook' ORDER BY ALL"
        ).fetchall()
    assert rows == [
        (minute, 11, 0, 0, 59),
        (minute + 30, 1, 1, 30, 34),
        (minute + 60, 12, 0, 60, 119),
    ]


def test_a_failed_append_leaves_nothing_and_can_be_repeated(store, monkeypatch):
    """Rows, position and chain memory are as before; the same call succeeds later."""
    store.append(batch(0, admission("ab", name="a")))
    with monkeypatch.context() as broken:
        broken.setattr("tierscope.storage.ingest._POSITIONS", "INSERT INTO no_such_table FROM incoming")

        with pytest.raises(StoreUnusable):
            store.append(batch(1, admission("abc", name="b")))

    assert store.position("node-1") == FeedPosition("node-1", 7, 0)
    assert store.reader().row_counts()["requests"] == 1
    store.append([batch(1, admission("abc", name="b")), batch(2, admission("abcd", name="c"))])
    assert store.reader().window("prod", "chat", ALL_TIME).accesses == 9


def test_only_first_tokens_of_first_admissions_are_in_the_sums(store):
    """Other admissions are rows, outside token sums."""
    kinds = list(RequestStatus)
    store.append(batch(0, *(admission("abc", name=kind, status=kind, shares=[16]) for kind in kinds)))

    assert store.reader().row_counts()["requests"] == len(kinds)
    assert totals(store).as_dict() == admission("abc", shares=[16]).tokens.as_dict()


def test_a_deployment_is_kept_when_it_changes(store):
    """The history of an endpoint's configuration has a row a change, not a row a start."""
    small = Deployment("prod", "chat", "model", 2, tiers=(TierConfig(Tier.L1, 1e9),))
    large = replace(small, tiers=(TierConfig(Tier.L1, 2e9),))

    kept = [store.record_deployment(deployment) for deployment in (small, small, large, large, small)]

    assert kept == [True, False, True, False, True]


@pytest.mark.parametrize("changed", [field.name for field in fields(Deployment)])
def test_every_part_of_a_deployment_is_kept(store, changed):
    """A change of any one setting is a row; who adds a setting adds its column."""
    other: dict[str, object] = {
        "routing": RoutingPolicy.PREFIXAWARE,
        "tiers": (TierConfig(Tier.L2, 5e9, limit_bytes=6e9),),
        "objective": Objective(target=0.5),
        "l1_keeps_loads": True,
        "wiring": Wiring(hash_seeds=("0", "random")),
    }
    before = Deployment("prod", "chat", "model", 2, tiers=(TierConfig(Tier.L2, 5e9, limit_bytes=7e9),))
    store.record_deployment(before)
    value = getattr(before, changed)

    default = f"{value}-2" if isinstance(value, str) else 17
    changed_one = replace(before, **{changed: other.get(changed, default)})

    assert store.record_deployment(changed_one)
    assert not store.record_deployment(changed_one)


def test_configurations_are_read_back_whole(places):
    """Each with the time since when it is in force; a span has those that overlap it."""
    times = iter((START, START, START + 100, START + 200))
    wired = Deployment("prod", "chat", "model", 2, wiring=Wiring(pool=PoolWiring("curvine", "worker", 3)))
    plain = replace(wired, routing=RoutingPolicy.NONE, wiring=None)
    with Store.open(*places(), clock=lambda: next(times)) as store:
        for deployment in (wired, plain, wired):
            store.record_deployment(deployment)
        reader = store.reader()
        expected = [DeploymentSince(START + at, one) for at, one in ((0, wired), (100, plain), (200, wired))]

        assert reader.deployments("prod", "chat", TimeSpan(0.0, 1e11)) == tuple(expected)
        assert reader.deployments("prod", "chat", TimeSpan(START + 150, START + 160)) == (expected[1],)
        assert reader.deployments("prod", "chat", TimeSpan(0.0, START)) == ()
        assert reader.deployments("prod", "other", TimeSpan(0.0, 1e11)) == ()


def test_the_latest_recommendation_is_found(store):
    """Of one hour and status the latest stays; what was said before a change of status stays too."""
    for minute, status in enumerate(["recommend", "recommend", "no_change", "recommend"]):
        document = f'{{"n": {minute}}}'.encode()
        store.save_recommendation(
            "prod", "chat", status=status, document=document, at_unix_seconds=START + minute
        )

    assert store.reader().latest_recommendation("prod", "chat") == b'{"n": 3}'
    assert store.reader().latest_recommendation("prod", "other") is None
    assert store.reader().row_counts()["recommendations"] == 2


def test_a_closed_store_says_so(places):
    """A late caller gets our error, not DuckDB's."""
    store = Store.open(*places(), clock=lambda: START)
    reader = store.reader()
    store.close()
    store.close()

    with pytest.raises(StoreUnusable, match="closed"):
        store.append(batch(0))
    with pytest.raises(StoreUnusable, match="closed"):
        reader.row_counts()


def test_a_closed_store_is_one_file(tmp_path):
    """Nothing but the store itself is left: the log is folded in."""
    with Store.open(tmp_path / "s.duckdb", clock=lambda: START) as store:
        store.append(Ledger().batches(20))
        assert store.size_bytes() > 0

    assert [path.name for path in tmp_path.iterdir()] == ["s.duckdb"]


def test_sizes_of_tiers_that_are_not_reported_stay_null(store):
    """Missing is absent, never zero."""
    store.append(batch(0, TierSample(Tier.L1, "lmcache", START, used_bytes=0.0)))

    (sample,) = store.reader().samples("prod", "chat", ALL_TIME).samples
    assert (sample.capacity_bytes, sample.used_bytes) == (None, 0.0)


def test_a_pool_is_stored_by_model_and_by_who_counted(places):
    """One scan adds up to the directory; what a process does not count is NULL."""
    place = places()
    traffic = PoolTraffic("kv", Viewpoint.WORKER, "w0", START, START + 5, read_bytes=700, remote_opens=2)
    files = [
        PoolFiles("kv", "chunk", "org/m", START, 10, 1000),
        PoolFiles("kv", "foreign", "unknown", START, 1, 7),
    ]
    with Store.open(*place, clock=lambda: START) as store:
        appended = store.append(batch(0, traffic, *files))

    assert (appended.rows["pool_traffic"], appended.rows["pool_files"], appended.refused) == (1, 2, 0)
    with Store.open(*place, clock=lambda: START) as store, store._database.reading() as connection:
        by_kind = connection.execute("SELECT kind, model, files, size_bytes FROM pool_files").fetchall()
        moved = connection.execute(
            "SELECT seen_by, process, read_bytes, written_bytes, remote_opens FROM pool_traffic"
        ).fetchall()
    assert sorted(by_kind) == [("chunk", "org/m", 10, 1000), ("foreign", "unknown", 1, 7)]
    assert moved == [("worker", "w0", 700, None, 2)]
