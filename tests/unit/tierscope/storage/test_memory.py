"""What a store takes of memory is bounded: its windows by what fits, DuckDB by its limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ledgers import START, admission, batch, split_of
from tierscope.domain.window import TimeSpan
from tierscope.storage.database import Database
from tierscope.storage.fitting import BLOCK_BYTES, ROW_BYTES
from tierscope.storage.places import FilePlace
from tierscope.storage.store import Store

ALL_TIME = TimeSpan(0.0, START + 1e6)
CHAIN = "abcd"
EACH = ROW_BYTES + BLOCK_BYTES * len(CHAIN)
MEMORY_BYTES = 64 * 1024**2
APPENDS, ROWS, BLOCKS = 22, 300, 1000


@pytest.fixture
def store(places):
    """Ten requests of four blocks, a second apart."""
    with Store.open(*places(), clock=lambda: START) as store:
        store.append(batch(0, *(admission(CHAIN, name=f"{n}", at=START + n) for n in range(10))))
        yield store


def window(store, most_window_bytes, span=ALL_TIME):
    return store.reader(most_window_bytes).window("prod", "chat", span)


@pytest.mark.parametrize(("most_bytes", "kept"), [
    (10 * EACH, 10), (10 * EACH - 1, 9), (3 * EACH, 3), (EACH - 1, 0), (0, 0)
])  # fmt: skip
def test_a_window_has_the_newest_requests_that_fit(store, most_bytes, kept):
    """Its span begins with the first of them, so that nobody takes the rest for silence."""
    found = window(store, most_bytes)

    assert found.at_unix_seconds.tolist() == [START + n for n in range(10 - kept, 10)]
    assert found.span.end_unix_seconds == ALL_TIME.end_unix_seconds
    if kept == 10:
        assert found.span == ALL_TIME
    elif kept:
        assert found.span.start_unix_seconds == START + 10 - kept
    else:
        assert found.span.start_unix_seconds == found.span.end_unix_seconds


def test_a_cut_window_takes_no_more_than_it_may(store):
    """All its arrays together; chains that begin with another request's are whole all the same."""
    found = window(store, 5 * EACH)
    arrays = [getattr(found, name) for name in found.__dataclass_fields__]

    assert sum(one.nbytes for one in arrays if isinstance(one, np.ndarray)) <= 5 * EACH
    assert np.diff(found.offsets).tolist() == [len(CHAIN)] * 5


def test_requests_of_one_moment_stay_together(store):
    """A span cannot part them: those that do not all fit go."""
    store.append(batch(1, *(admission(CHAIN, name=f"late {n}", at=START + 20) for n in range(3))))

    assert window(store, 2 * EACH).requests == 0
    assert window(store, 3 * EACH).requests == 3


def test_evidence_is_of_the_cut_span(store):
    """What else is read with a window is of the same time."""
    found = store.reader(4 * EACH).evidence("prod", "chat", ALL_TIME)

    assert found.window.span.start_unix_seconds == START + 6
    assert found.window.requests == 4


def test_without_a_bound_all_of_a_span_is_read(store):
    """Whoever asks through the API or the command line is answered in full."""
    assert window(store, None).requests == 10


def used_bytes(store):
    """What DuckDB holds in memory."""
    with store._database.reading() as cursor:
        (found,) = cursor.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()
    return found


def test_duckdb_keeps_to_its_limit_and_the_store_is_whole(tmp_path):
    """A file of more than the limit is written and read; what does not fit stays on the disk."""
    rng = np.random.default_rng(3)
    made = replace(admission(), tokens=split_of(BLOCKS * 16))

    def request(number, n):
        hashes = tuple(rng.integers(1, 2**63, BLOCKS).tolist())
        return replace(made, request_id=f"{number} {n}", block_hashes=hashes)

    with Store.open(tmp_path / "store", clock=lambda: START, memory_bytes=MEMORY_BYTES) as store:
        for number in range(APPENDS):
            store.append(batch(number, *(request(number, n) for n in range(ROWS))))
            assert used_bytes(store) <= MEMORY_BYTES
        assert store.size_bytes() > MEMORY_BYTES
        found = store.reader().window("prod", "chat", ALL_TIME)
        assert used_bytes(store) <= MEMORY_BYTES

    assert found.accesses == APPENDS * ROWS * BLOCKS


def test_a_store_that_is_opened_anew_keeps_its_limit(tmp_path):
    """After an error that ends DuckDB's connection, too."""
    database = Database(FilePlace(tmp_path / "store"))
    database.limit_memory(MEMORY_BYTES)
    with database.replaced():
        pass

    with database.reading() as cursor:
        assert cursor.execute("SELECT current_setting('memory_limit')").fetchone() == ("64.0 MiB",)
    database.close()
