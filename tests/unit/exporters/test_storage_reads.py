"""What workers read from L2, and what that says of the requests they read it for."""

from __future__ import annotations

import pytest

from exporters.attribution import loaded_of
from exporters.storage_reads import StorageRead, StorageReads
from tests.admitted import wanted

CHUNK_TOKENS = 64
LATE = 10.0


@pytest.fixture
def reads():
    return StorageReads("inside", chunk_tokens=CHUNK_TOKENS)


def read(chunk, *rids, worker=0, at=1.5, tokens=CHUNK_TOKENS):
    return StorageRead(worker, chunk, tokens, rids or ("r",), at, at + 0.01, 1000)


def split(reads, admission):
    """Tokens from L1 and L2; None where nothing tells them."""
    lookup = reads.take(admission)
    if lookup is None:
        return None
    return loaded_of(lookup, admission.loaded_tokens - admission.external_tokens, admission.external_tokens)


@pytest.mark.parametrize(
    ("chunks", "prompt", "local", "external", "expected"),
    [
        pytest.param(0, 300, 0, 256, (256, 0), id="nothing was read: all of it was in L1"),
        pytest.param(1, 300, 0, 256, (192, 64), id="the last chunk was read"),
        pytest.param(4, 300, 0, 256, (0, 256), id="every chunk was read"),
        pytest.param(2, 300, 96, 160, (32, 128), id="L0 ends inside a chunk of L1"),
        pytest.param(3, 300, 96, 160, (0, 160), id="L0 has a part of what was read"),
        pytest.param(2, 256, 0, 255, (128, 127), id="a whole prompt was found but for its last token"),
        pytest.param(2, 257, 0, 256, (128, 128), id="all but the last token are whole chunks"),
    ],
)
def test_what_was_not_read_from_l2_came_from_l1(reads, chunks, prompt, local, external, expected):
    """UD-09: L0 is credited first; L2 with what was read beyond it, L1 with the rest."""
    for chunk in range(chunks):
        reads.read(read(chunk))
    reads.told_until(0, LATE)

    assert split(reads, wanted(prompt=prompt, local=local, external=external)) == expected


def test_every_worker_reads_its_part_of_a_chunk(reads):
    """Two workers read the same two chunks: 128 tokens, and four loads."""
    reads.workers = 2
    for worker in (0, 1):
        for chunk in (1, 2):
            reads.read(read(chunk, worker=worker))
        reads.told_until(worker, LATE)

    lookup = reads.take(wanted())

    assert loaded_of(lookup, 0, 256) == (128, 128)
    assert len(lookup.loads) == 4


def test_nothing_is_said_before_every_worker_has_told_what_it_read(reads):
    """A worker that lags may still tell of a chunk."""
    reads.workers = 2
    reads.told_until(0, LATE)
    assert split(reads, wanted(ended=2.0)) is None
    assert not reads.cannot_come(wanted(ended=2.0))

    reads.told_until(1, 2.1)
    assert split(reads, wanted(ended=2.0)) is None

    reads.told_until(1, 2.3)
    assert split(reads, wanted(ended=2.0)) == (256, 0)


def test_what_was_lost_makes_no_l1(reads):
    """Admissions whose reads may be among the lost ones are never split, later ones are."""
    reads.lost(0)
    reads.told_until(0, LATE)

    assert split(reads, wanted(admitted=1.0)) is None
    assert reads.cannot_come(wanted(admitted=1.0))
    reads.told_until(0, LATE + 5)
    assert split(reads, wanted(admitted=LATE + 1, ended=LATE + 2)) == (256, 0)


def test_requests_that_wait_for_the_same_chunk_each_have_their_own_reading(reads):
    """Both held it when it was read, twice: each is credited once, whoever is told first."""
    for at in (1.5, 1.6):
        reads.read(read(7, "a", "b", at=at))
    reads.told_until(0, LATE)

    assert split(reads, wanted("b")) == (192, 64)
    assert split(reads, wanted("a")) == (192, 64)


def test_a_chunk_that_one_of_two_read_is_credited_to_one(reads):
    """The other found it in L1 by then."""
    reads.read(read(7, "a", "b"))
    reads.told_until(0, LATE)

    assert split(reads, wanted("a")) == (192, 64)
    assert split(reads, wanted("b")) == (256, 0)


def test_a_re_admission_has_what_was_read_after_the_first(reads):
    """Loaded again after a preemption."""
    reads.read(read(1, at=1.5))
    reads.read(read(1, at=4.0))
    reads.told_until(0, LATE)

    assert split(reads, wanted(number=0, admitted=1.0, ended=2.0)) == (192, 64)
    assert split(reads, wanted(number=1, admitted=3.5, ended=5.0)) == (192, 64)


def test_an_admission_that_loaded_nothing_asks_for_nothing(reads):
    """There is nothing to split."""
    reads.told_until(0, LATE)

    assert reads.take(wanted(external=0)) is None


def test_reads_that_nobody_asks_for_are_forgotten():
    """The oldest request first."""
    reads = StorageReads("inside", chunk_tokens=CHUNK_TOKENS, most_requests=2)
    for rid in "abc":
        reads.read(read(1, rid))
    reads.told_until(0, LATE)

    assert [split(reads, wanted(rid)) for rid in "abc"] == [(256, 0), (192, 64), (192, 64)]
