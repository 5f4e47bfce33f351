"""Exporter, collector and store around a real vLLM: their sums are the engine's own, to the token."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.engines import hook
from tests.engines.scenario import ALL_TIME, ENDPOINT, NAMESPACE, USABLE_BLOCKS, Deployment, Life
from tests.engines.workload import Sent, Workload
from tests.exporting import Scrape
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.registry import metrics
from tierscope.storage.duckdb_reader import DuckDbReader


@dataclass(frozen=True)
class Row:
    """One admission in the store."""

    client_id: str
    status: str
    tokens: TokenSplit


@dataclass(frozen=True)
class Blocks:
    """What the store's block events of one rank add up to, walked through in their order."""

    stored: int
    evicted: Counter[str]
    """By reason."""
    peak: int
    lowest: int
    """The fewest copies any hash was counted at."""

    @property
    def resident(self) -> int:
        """Copies that are there now."""
        return self.stored - self.evicted.total()


@dataclass(frozen=True)
class Stored:
    """What the store had when it was looked at."""

    records: TokenSplit
    counters: TokenSplit
    """What the engine's own counters grew by."""
    lookups: tuple[int, int]
    """Tokens found in L0, and all that were looked up."""
    rows: list[Row]
    blocks: list[Blocks]
    readings: list[tuple[int, int, int, int]]
    """By rank: smallest and largest size that was ever read, most blocks ever in it, and the last."""
    lost: dict[str, int]
    """Units missing or not understood, by kind of source."""


@dataclass(frozen=True)
class Look:
    """One moment of a run: what clients, engine, exporter and store know."""

    sent: list[Sent]
    lives: list[Life]
    page: Scrape
    stored: Stored

    @property
    def counted(self) -> TokenSplit:
        """The engine's own prompt counters, over all its lives."""
        return sum((life.tokens for life in self.lives), NO_TOKENS)

    def total(self, name: str) -> int:
        """One counter of the engine, over all its lives."""
        return sum(life.page.total(name) for life in self.lives)


def look(pod: Deployment, workload: Workload) -> Look:
    """Wait until everything has arrived, and take it all down."""
    life = pod.settle()
    page = pod.scrape()
    with pod.stored() as reader:
        return Look(list(workload.sent), [*pod.ended, life], page, _read(reader, pod))


def _read(reader: DuckDbReader, pod: Deployment) -> Stored:
    with reader._database.reading() as cursor:
        rows = cursor.execute(
            "SELECT request_id, status, prompt_tokens, l0_tokens, l1_tokens, l2_tokens, external_tokens, "
            "computed_tokens FROM requests"
        ).fetchall()
        events = cursor.execute(
            "SELECT holder, action, reason, block_hashes FROM block_events "
            "ORDER BY at_unix_seconds, sequence NULLS LAST, ordinal, action DESC"
        ).fetchall()
        (hits, misses) = cursor.execute(
            "SELECT sum(lookup_hit_tokens), sum(lookup_miss_tokens) FROM tier_activity WHERE tier = 'l0'"
        ).fetchone()
        readings = cursor.execute(
            "SELECT min(capacity_blocks), max(capacity_blocks), max(used_blocks), "
            "arg_max(used_blocks, at_unix_seconds) FROM tier_samples WHERE tier = 'l0' "
            "GROUP BY holder ORDER BY holder"
        ).fetchall()
    by_holder = defaultdict(list)
    for holder, *event in events:
        by_holder[holder].append(event)
    return Stored(
        reader.totals(NAMESPACE, ENDPOINT, ALL_TIME).tokens,
        reader.engine_totals(NAMESPACE, ENDPOINT, ALL_TIME).tokens,
        (hits, hits + misses),
        [Row(hook.client_id({"rid": rid}), status, TokenSplit(*split)) for rid, status, *split in rows],
        [_walked(by_holder[str(pod.engine_id(rank))]) for rank in pod.ranks],
        readings,
        {found.source.kind: found.missing + found.undecodable for found in reader.coverage(ALL_TIME)},
    )


def _walked(events: list[list]) -> Blocks:
    copies: Counter[int] = Counter()
    evicted: Counter[str] = Counter()
    stored = resident = peak = lowest = 0
    for action, reason, hashes in events:
        if action == "stored":
            copies.update(hashes)
            stored += len(hashes)
            resident += len(hashes)
        else:
            copies.subtract(hashes)
            evicted[reason] += len(hashes)
            resident -= len(hashes)
        peak = max(peak, resident)
        lowest = min([lowest, *(copies[block_hash] for block_hash in hashes)])
    return Blocks(stored, evicted, peak, lowest)


@contextmanager
def deployed(vllm, folder, *, ranks: int = 1, scale: float = 1.0) -> Iterator[tuple[Deployment, Workload]]:
    """A pod that is read from its first request on, and its clients."""
    with Deployment(vllm, folder, ranks=ranks) as pod, Workload(pod.engine.url, scale=scale) as workload:
        yield pod, workload


@pytest.fixture(scope="module")
def whole(vllm, tmp_path_factory) -> Look:
    """After the whole workload, and with every block filled."""
    with deployed(vllm, tmp_path_factory.mktemp("whole")) as (pod, workload):
        workload.run()
        pod.fill()
        return look(pod, workload)


@pytest.fixture(scope="module")
def killed(vllm, tmp_path_factory) -> Look:
    """A run in which first the exporter is killed, then the engine, each in between requests.

    What is asked while no exporter runs is in no page that anyone reads until the next one comes.
    """
    with deployed(vllm, tmp_path_factory.mktemp("killed"), scale=0.3) as (pod, workload):
        workload.conversations()
        pod.kill_exporter(pod.settle())
        workload.oddities()
        pod.start_exporter()
        pod.await_reading()
        workload.unrelated()
        pod.fill()
        pod.kill_engine(pod.settle())
        pod.await_reading()
        workload.shared_prompt()
        workload.oddities()
        pod.fill()
        return look(pod, workload)


@pytest.fixture(scope="module")
def parallel(vllm, tmp_path_factory) -> Look:
    """Two data-parallel ranks behind one address."""
    with deployed(vllm, tmp_path_factory.mktemp("parallel"), ranks=2, scale=0.5) as (pod, workload):
        for phase in (
            workload.shared_prompt,
            workload.conversations,
            workload.unrelated,
            workload.oddities,
            workload.leaving_while_generating,
            workload.mixed,
        ):
            phase()
        pod.fill()
        return look(pod, workload)


@pytest.fixture(params=["whole", "killed", "parallel"])
def seen(request) -> Look:
    """Each of these."""
    return request.getfixturevalue(request.param)


def test_the_workload_had_what_makes_counting_hard(whole):
    """200 requests, evictions, a preemption, clients that left, several answers, salts."""
    phases = Counter(sent.phase for sent in whole.sent)

    assert len(whole.sent) >= 200
    assert whole.total("vllm:num_preemptions_total") >= 1
    assert whole.lives[0].copies[0].removed > USABLE_BLOCKS
    assert phases.keys() >= {"leaving", "never-admitted", "several", "salted", "logprobs"}


def test_the_store_has_the_engines_own_sums(seen):
    """Prompt, L0 and computed tokens and lookups: none off, by records and by the engine's counters."""
    print(f"\nengine   {seen.counted}\nrecords  {seen.stored.records}\ncounters {seen.stored.counters}")

    assert seen.stored.records == seen.counted
    assert seen.stored.counters == seen.counted
    assert seen.stored.lookups == (
        seen.total("vllm:prefix_cache_hits_total"),
        seen.total("vllm:prefix_cache_queries_total"),
    )


def test_a_page_shows_what_the_store_has(whole, parallel):
    """Both out of one ledger."""
    for look in (whole, parallel):
        assert look.page.split(metrics.REQUEST_TOKENS) == look.stored.records
        assert look.page.split(metrics.ENGINE_TOKENS) == look.stored.counters
        resident = look.page.sums(metrics.RESIDENT_BLOCKS, "holder", tier="l0")
        assert resident == look.page.sums(metrics.CAPACITY_BLOCKS, "holder", tier="l0")
        assert set(resident.values()) == {USABLE_BLOCKS}


def test_each_request_has_the_cached_tokens_its_client_was_told(seen):
    """As the API has them; of several answers to one prompt it tells those of one."""
    rows = defaultdict(list)
    for row in seen.stored.rows:
        if row.status == "served":
            rows[row.client_id].append(row.tokens)

    for sent in seen.sent:
        if sent.cached_tokens is not None:
            found = rows[sent.request_id]
            assert [tokens.prompt for tokens in found] == [sent.prompt_tokens] * sent.answers
            assert sent.cached_tokens in [tokens.prompt - tokens.computed for tokens in found]


def test_every_preemption_is_a_readmission(seen):
    """A row of its own, in no sum."""
    again = [row for row in seen.stored.rows if row.status == "readmitted"]

    assert len(again) == seen.total("vllm:num_preemptions_total")


def test_residency_is_what_the_engine_stored_and_removed(seen):
    """Block for block, never negative; once the cache has wrapped every block that there is, never more.

    Copies of whole prompts, which only their removal shows, are gone by the time of a look.
    """
    for rank, blocks in enumerate(seen.stored.blocks):
        lives = [life.copies[rank] for life in seen.lives]
        ended = sum(copies.resident for copies in lives[:-1])

        assert blocks.stored == sum(copies.stored for copies in lives)
        assert blocks.evicted["restart"] == ended
        assert blocks.evicted.total() == sum(copies.removed for copies in lives) + ended
        assert blocks.lowest == 0 == min(copies.lowest for copies in lives)
        assert blocks.peak == blocks.resident == USABLE_BLOCKS
        assert max(copies.peak for copies in lives) == lives[-1].resident == USABLE_BLOCKS


def test_readings_of_the_cache_stay_within_it(seen):
    """Its size is that of the blocks a prefix can live in, whatever the engine's page calls it."""
    assert [tuple(read) for read in seen.stored.readings] == [
        (USABLE_BLOCKS, USABLE_BLOCKS, USABLE_BLOCKS, USABLE_BLOCKS)
    ] * len(seen.stored.blocks)


def test_nothing_is_missing_unnoticed(seen):
    """No batch of any stream and no poll of a living engine was lost."""
    lost = {source: units for source, units in seen.stored.lost.items() if units}

    assert lost.keys() <= {"vllm_metrics"}
