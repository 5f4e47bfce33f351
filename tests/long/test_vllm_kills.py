"""Engine, exporter and collector killed at seeded points of a real run: sums hold, or the store tells why."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.engines import hook
from tests.engines.environment import vllm_environment
from tests.engines.killing import MORTALS, EngineLife, Killed, last_readings, run_with_kills
from tests.engines.scenario import ALL_TIME, ENDPOINT, NAMESPACE
from tests.long_sample import SAMPLED
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.storage.duckdb_reader import DuckDbReader

pytestmark = pytest.mark.long

KILLS = len(MORTALS) if SAMPLED else 20

LAST_SECONDS = 2.0
"""What an engine counted or answered this long before its death may have died with it: the probe sends
records at most every 80 ms, but on a machine whose cores are taken its thread may wait longer."""


@dataclass(frozen=True)
class Row:
    """One admission in the store."""

    client_id: str
    attempt: int
    status: str
    admitted_unix_seconds: float
    tokens: TokenSplit


@dataclass(frozen=True)
class Stored:
    """What the store has after the run."""

    rows: list[Row]
    counters: TokenSplit
    """What the engines' own counters grew by."""
    feeds: int
    """Lives of the exporter."""
    coverage: dict[str, tuple[int, int, int, int]]
    """By kind of source: received, missing, undecodable, restarts."""

    def of(self, life: EngineLife, status: str) -> list[Row]:
        """First admissions into one life of the engine that ended so."""
        until = life.killed_unix_seconds or float("inf")
        return [
            row
            for row in self.rows
            if row.attempt == 0
            and row.status == status
            and life.began_unix_seconds < row.admitted_unix_seconds < until
        ]


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Killed:
    """The run."""
    return run_with_kills(vllm_environment(), tmp_path_factory.mktemp("kills"), kills=KILLS, seed=7)


@pytest.fixture(scope="module")
def stored(killed) -> Stored:
    """What is in its store, which nobody writes any more."""
    with closing(DuckDbReader.open(killed.store)) as reader, reader._database.reading() as cursor:
        rows = cursor.execute(
            "SELECT request_id, attempt, status, admitted_unix_seconds, prompt_tokens, l0_tokens, l1_tokens, "
            "l2_tokens, external_tokens, computed_tokens FROM requests ORDER BY admitted_unix_seconds"
        ).fetchall()
        feeds = cursor.execute("SELECT feed FROM feed_positions").fetchall()
        counters = reader.engine_totals(NAMESPACE, ENDPOINT, ALL_TIME).tokens
        covered = {
            found.source.kind: (found.received, found.missing, found.undecodable, found.restarts)
            for found in reader.coverage(ALL_TIME)
        }
    return Stored(
        [
            Row(hook.client_id({"rid": rid}), *told, TokenSplit(*split))
            for rid, *told, split in map(_split, rows)
        ],
        counters,
        len(feeds),
        covered,
    )


def _split(row: tuple) -> tuple:
    return (*row[:4], row[4:])


def summed(rows: list[Row]) -> TokenSplit:
    return sum((row.tokens for row in rows), NO_TOKENS)


def test_every_life_was_lived(killed, stored):
    """As many lives as kills, each with answers; the store knows every run of the exporter."""
    engine_kills = sum(life.killed_unix_seconds is not None for life in killed.engines)

    assert engine_kills + len(killed.exporters) - 1 + killed.collectors - 1 == KILLS
    assert len(killed.engines) == engine_kills + 1
    assert all(stored.of(life, "served") for life in killed.engines)
    assert stored.feeds == len(killed.exporters)


def test_no_admission_is_stored_twice(stored):
    """However often an exporter read the engine's records from their start."""
    times = Counter((row.client_id, row.attempt) for row in stored.rows)

    assert [key for key, n in times.items() if n > 1] == []


def test_every_answer_is_a_served_request(killed, stored):
    """With the tokens its client was told; only what a dying engine had not sent yet may be missing."""
    served = {row.client_id: row.tokens for row in stored.rows if row.status == "served"}
    lost = [answer for answer in killed.answered if answer.sent.request_id not in served]
    assert len(lost) < len(killed.answered)

    for answer in killed.answered:
        if answer not in lost:
            tokens = served[answer.sent.request_id]
            assert (tokens.prompt, tokens.l0) == (answer.sent.prompt_tokens, answer.sent.cached_tokens)
    print(f"\n{len(killed.answered)} answers, {len(lost)} of them not served in the store")
    deaths = [life.killed_unix_seconds for life in killed.engines if life.killed_unix_seconds is not None]
    for answer in lost:
        assert any(0 <= death - answer.at_unix_seconds <= LAST_SECONDS for death in deaths), answer


def test_sums_are_the_engines_life_by_life(killed, stored):
    """The living engine's counters to the token; a killed one's last page up to what was under way."""
    pages = last_readings(killed.readings).values()
    assert len(pages) == len(killed.engines)

    print("\n| life | last page | served | unresolved |")
    for life, page in zip(killed.engines, pages, strict=True):
        served, unresolved = summed(stored.of(life, "served")), summed(stored.of(life, "unresolved"))
        print(
            f"| {life.killed_unix_seconds} | {page.tokens.prompt} | {served.prompt} | {unresolved.prompt} |"
        )
        if life.killed_unix_seconds is None:
            assert served == page.tokens
            assert unresolved == NO_TOKENS
            continue
        since = summed(
            [row for row in stored.of(life, "served") if row.admitted_unix_seconds > page.at_unix_seconds - 5]
        )
        assert served.prompt - since.prompt <= page.tokens.prompt <= served.prompt + unresolved.prompt


def test_engine_counters_are_whole_though_nobody_read_them_for_a_while(killed, stored):
    """What grew between two lives of the exporter is told by the second: all that was on the last pages."""
    last = sum((reading.tokens for reading in last_readings(killed.readings).values()), NO_TOKENS)

    print(f"\nengines' own counters: {stored.counters.prompt} of {last.prompt} prompt tokens")
    assert stored.counters == last


def test_pages_of_all_lives_of_the_exporter_add_up_to_the_store(killed, stored):
    """What Prometheus adds up over its counter resets: nothing is counted twice, and nothing is left out."""
    pages, served = (
        sum(killed.pages, NO_TOKENS),
        summed([row for row in stored.rows if row.status == "served"]),
    )

    print(f"\n{len(killed.pages)} last pages: {pages.prompt} of {served.prompt} prompt tokens")
    assert len(killed.pages) == len(killed.exporters)
    assert pages == served


def test_coverage_says_so(killed, stored):
    """No record and no batch is missing unnoticed, and restarts are told."""
    engine_kills = len(killed.engines) - 1

    received, missing, undecodable, restarts = stored.coverage["feed"]
    assert (missing, undecodable, restarts) == (0, 0, len(killed.exporters) - 1)
    received, missing, undecodable, restarts = stored.coverage["vllm_hook"]
    assert received > 0
    assert (missing, undecodable) == (0, 0)
    assert restarts == engine_kills
