"""The views say what a person would work out by hand."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from tests import naive
from tests.ledgers import ENGINES, START, Ledger, admission, batch
from tests.naive import block_reuse, block_tiers
from tierscope.domain.events import BlockAction, BlockEvent, EvictionReason
from tierscope.domain.requests import RequestRecord, RequestStatus
from tierscope.domain.tiers import Tier
from tierscope.storage.reference import store_page
from tierscope.storage.rows import request_id
from tierscope.storage.schema import TABLES
from tierscope.storage.store import Store
from tierscope.storage.views import VIEWS

REUSE = "at_unix_seconds, block_hash, request, previous_request, tier, interval_seconds"


@pytest.fixture(scope="module")
def batches():
    """Three hours and a half of a small deployment."""
    return Ledger(seed=5).batches(210)


@pytest.fixture(scope="module")
def records(batches):
    entries = (entry for one in batches for entry in one.entries)
    return [(request_id(entry), entry) for entry in entries if isinstance(entry, RequestRecord)]


@pytest.fixture(scope="module")
def ask(places, batches):
    """Return a function from SQL to the rows it gives over the ledger."""
    with Store.open(*places(), clock=lambda: START) as store:
        for start in range(0, len(batches), 15):
            store.append(batches[start : start + 15])

        def rows(sql: str) -> list[tuple[object, ...]]:
            with store._database.reading() as cursor:
                return cursor.execute(sql).fetchall()

        yield rows


def ordered(rows):
    return sorted(rows, key=repr)


def test_accesses_are_every_block_of_every_admission(ask, records):
    """Chains put together in SQL are the chains that came in, each block with its place and tier."""
    expected = [
        (record.admitted_unix_seconds, row, position, block, tier)
        for row, record in records
        for position, (block, tier) in enumerate(zip(record.block_hashes, block_tiers(record), strict=True))
    ]

    found = ask("SELECT at_unix_seconds, request, position, block_hash, tier FROM block_accesses")

    assert len(expected) > 1000
    assert ordered(found) == ordered(expected)


def test_reuse_agrees_with_remembering_the_last_use(ask, records):
    """Previous request, interval and tier of every block are what a dictionary of last uses says."""
    found = ask(f"SELECT {REUSE} FROM block_reuse")

    assert ordered(found) == ordered(block_reuse(records))


def test_shared_prefixes_agree_with_counting_every_blocks_users(ask, records):
    """Length, requests, sessions, replicas and computations of each; none that a longer one says too."""
    expected = naive.shared_prefixes(records)

    found = ask(
        "SELECT block_hash, blocks, requests, sessions, replicas, computed_requests FROM shared_prefixes"
    )

    assert len(expected) > 20
    assert {block: tuple(said) for block, *said in found} == expected
    assert ask("SELECT count(*) FROM shared_prefixes WHERE prefix_tokens <> 16 * blocks") == [(0,)]


def test_regret_agrees_with_remembering_what_is_gone(ask, records, batches):
    """Each eviction meets the first request that asks for the block before it is stored again."""
    events = [entry for one in batches for entry in one.entries if isinstance(entry, BlockEvent)]
    expected = naive.regret(records, events)

    found = ask(
        "SELECT evicted_unix_seconds, holder, block_hash, wanted_unix_seconds, request, tier FROM regret"
    )

    assert len(expected) > 20
    assert ordered(found) == ordered(expected)


@pytest.mark.parametrize(
    ("tier", "shares", "regretted"),
    [
        ("l0", [16], None),
        ("l0", [0, 16], "l1"),
        ("l0", [0, 0, 0, 16], "external"),
        ("l1", [0, 16], None),
        ("l1", [0, 0, 16], "l2"),
        ("l1", [0, 0, 0, 16], None),
        ("l2", [0, 16], None),
        ("l2", [], "computed"),
    ],
)
def test_an_eviction_is_regretted_where_only_a_lower_tier_serves(places, tier, shares, regretted):
    """What the tier or one above it served was not missed; what no one placed may have come from it."""
    wanted = admission("a", at=START + 9, shares=shares)
    holder = str(ENGINES[0]) if tier == "l0" else "server"
    gone = BlockEvent(
        Tier(tier), holder, BlockAction.EVICTED, wanted.block_hashes, START, reason=EvictionReason.CAPACITY
    )
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(batch(0, gone, wanted))
        with store._database.reading() as cursor:
            found = cursor.execute("SELECT evicted_from, tier, interval_seconds FROM regret").fetchall()

    assert found == ([(tier, regretted, 9.0)] if regretted else [])


def test_a_copy_of_a_running_store_is_queried_read_only(tmp_path):
    """Views and macros are in the file: whoever opens a copy with DuckDB alone has them."""
    with Store.open(tmp_path / "s", clock=lambda: START) as store:
        store.append(Ledger(seed=5).batches(60))
        store.checkpoint()
        copy = shutil.copy(store.path, tmp_path / "copy.duckdb")
    Path(copy).chmod(0o400)

    with duckdb.connect(copy, read_only=True) as plain:
        for view in VIEWS:
            assert plain.execute(f"SELECT count(*) FROM {view.name}").fetchone() > (0,)
            if view.spanned:
                plain.execute(f"FROM {view.name}({START}, {START + 600})").fetchall()


@pytest.mark.parametrize(("start", "end"), [(0, 600), (3_000, 8_000), (3_540, 3_600), (900, 900)])
def test_a_span_reads_its_admissions_alone(ask, records, start, end):
    """The macros of a span give what the whole history would give if it were that span."""
    inside = [
        (row, record)
        for row, record in records
        if START + start <= record.admitted_unix_seconds < START + end
    ]
    bounds = f"({START + start}, {START + end})"

    assert ask(f"SELECT count(*) FROM block_accesses{bounds}") == [
        (sum(len(record.block_hashes) for _, record in inside),)
    ]
    found = ask(f"SELECT {REUSE} FROM block_reuse{bounds}")
    assert ordered(found) == ordered(block_reuse(inside))


def test_tiers_by_the_minute_add_up(ask, records):
    """Every minute's five tiers are its prompts, and all minutes are all served tokens."""
    served = [record.tokens for _, record in records if record.counts]

    minutes = ask(
        "SELECT minute_unix_seconds, sum(tokens), any_value(prompt_tokens), sum(ratio), any_value(requests) "
        "FROM tier_hits_per_minute GROUP BY minute_unix_seconds"
    )

    assert all(tokens == prompt and math.isclose(ratio, 1) for _, tokens, prompt, ratio, _ in minutes)
    assert all(minute % 60 == 0 for minute, *_ in minutes)
    assert sum(requests for *_, requests in minutes) == len(served)
    assert ordered(ask("SELECT tier, sum(tokens) FROM tier_hits_per_minute GROUP BY tier")) == ordered(
        (tier, sum(split.as_dict()[tier] for split in served))
        for tier in ("l0", "l1", "l2", "external", "computed")
    )


def test_requests_that_ask_no_cache_are_in_no_hit_ratio(places):
    """UD-03: their tokens are counted, and nothing is measured against them."""
    asks = admission(range(4), name="asks", shares=[32])
    skips = replace(admission(range(4), name="skips"), asks_cache=False)
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(batch(0, asks, skips))
        with store._database.reading() as cursor:
            found = cursor.execute(
                "SELECT tier, tokens, prompt_tokens, unasked_tokens, ratio FROM tier_hits_per_minute"
            ).fetchall()

    ratios = {tier: ratio for tier, *_, ratio in found}
    assert {(tokens, unasked) for _, _, tokens, unasked, _ in found} == {(138, 69)}
    assert {tier: tokens for tier, tokens, *_ in found}["computed"] == 37 + 69
    assert ratios == {"l0": 32 / 69, "l1": 0, "l2": 0, "external": 0, "computed": 37 / 69}


def test_tiers_take_their_blocks_outward(places):
    """A block that straddles two tiers belongs to the farther one, and to computing if any of it was."""
    split = admission(range(6), shares=[24, 16, 20, 16])  # of 101 tokens; 16 a block
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(batch(0, split))
        with store._database.reading() as cursor:
            tiers = cursor.execute("SELECT tier FROM block_accesses ORDER BY position").fetchall()

    assert [tier for (tier,) in tiers] == ["l0", "l1", "l2", "external", "computed", "computed"]


def test_reuse_is_within_an_endpoint_and_a_model(places):
    """The same hash under another model is another block."""
    first, second = admission("a", name="1"), admission("a", name="2", at=START + 1, model="other")
    third = admission("a", name="3", at=START + 2, status=RequestStatus.ABORTED)
    fourth = admission("a", name="4", at=START + 3)
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(batch(0, first, second, third, fourth))
        with store._database.reading() as cursor:
            found = cursor.execute(
                "SELECT request, previous_request FROM block_reuse WHERE previous_request IS NOT NULL"
            ).fetchall()

    assert found == [(request_id(fourth), request_id(first))]


@pytest.mark.parametrize("described", [*TABLES, *VIEWS], ids=lambda described: described.name)
def test_columns_are_as_documented(ask, described):
    """Names, types and order in the file are those of the reference page."""
    found = ask(f"SELECT column_name, column_type FROM (DESCRIBE {described.name})")

    assert found == [(column.name, column.sql_type) for column in described.columns]


def test_a_column_without_a_null_meaning_is_never_null(ask):
    """What the reference page says about NULL holds for the rows of a whole ledger."""
    for described in (*TABLES, *VIEWS):
        for column in described.columns:
            if column.null_means is None:
                assert ask(f"SELECT count(*) FROM {described.name} WHERE {column.name} IS NULL") == [(0,)]


def test_the_queries_of_the_reference_page_run(ask):
    """What a newcomer copies from the page answers something."""
    sql = re.search(r"```sql\n(.*?)```", store_page(), re.DOTALL).group(1)

    answers = [ask(statement) for statement in sql.split(";\n")[:-1]]

    assert len(answers) == 4
    assert all(answers)
