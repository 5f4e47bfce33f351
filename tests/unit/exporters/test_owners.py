"""Totals of engines and caches that are gone leave the page, and lose no reader an increase."""

from __future__ import annotations

from dataclasses import replace

from exporters.ledger import Ledger
from exporters.owners import FEWEST_READS, KEEP_SECONDS
from tests.ledgers import ENGINES, admission
from tierscope.domain.events import BlockAction, BlockEvent
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import FEED_BATCHES, REQUESTS, STORED_BLOCKS, TIME_TO_FIRST_TOKEN

GONE, STAYS = ENGINES
CACHE = "prod/cache-0"
HOOK = SourceId(SourceKind.VLLM_HOOK, str(GONE))


class Page:
    """A ledger's page under a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ledger = Ledger("node", list, monotonic=lambda: self.now)

    def serve(self, engine, name):
        self.ledger.post(HOOK, [admission("ab", name=name, engine=engine)])

    def store(self, holder):
        event = BlockEvent(Tier.L1, holder, BlockAction.STORED, (1, 2), 1.0)
        self.ledger.post(HOOK, [event])

    def read(self) -> dict[str, float]:
        """Requests by replica and stored blocks by holder; every other series must be of those too."""
        samples = list(self.ledger.samples())
        replicas = {s.labels[3] for s in samples if s.metric is TIME_TO_FIRST_TOKEN}
        found = {s.labels[3]: s.value for s in samples if s.metric is REQUESTS}
        assert replicas <= found.keys()
        return found | {s.labels[1]: s.value for s in samples if s.metric is STORED_BLOCKS}


def test_what_is_gone_and_was_read_leaves_the_page_and_nothing_else_does():
    """After a quarter of an hour and two reads; the feed's batches are all still counted."""
    page = Page()
    for engine in ENGINES:
        page.serve(engine, "one")
    page.store(CACHE)
    page.ledger.left(GONE)
    page.ledger.left(CACHE)

    for _ in range(FEWEST_READS):
        assert page.read() == {GONE.replica: 1, STAYS.replica: 1, CACHE: 2}
    page.now = KEEP_SECONDS
    assert page.read() == {GONE.replica: 1, STAYS.replica: 1, CACHE: 2}, "the last that reads it"

    assert page.read() == {STAYS.replica: 1}
    batches = [s.value for s in page.ledger.samples() if s.metric is FEED_BATCHES]
    assert batches == [3]


def test_with_an_engine_goes_its_whole_replica():
    """Its metrics page names ranks that nobody set up; a replica of a longer name is another."""
    page = Page()
    other = replace(GONE, replica=f"{GONE.replica}0")
    for engine in (GONE, replace(GONE, rank=1), other):
        page.serve(engine, "one")
    page.ledger.left(GONE)
    page.ledger.came(GONE)
    page.now = 2 * KEEP_SECONDS
    for _ in range(FEWEST_READS + 1):
        assert page.read().keys() == {GONE.replica, other.replica}, "it came back with all its ranks"

    page.ledger.left(GONE)
    page.now = 4 * KEEP_SECONDS
    for _ in range(FEWEST_READS):
        page.read()

    assert page.read() == {other.replica: 1}


def test_nothing_leaves_before_it_was_read():
    """Prometheus was down for an hour: it still gets the last values, as often as it takes to see them."""
    page = Page()
    page.serve(GONE, "one")
    page.ledger.left(GONE)
    page.now = 4 * KEEP_SECONDS

    assert [page.read() for _ in range(FEWEST_READS + 1)] == [{GONE.replica: 1}] * FEWEST_READS + [{}]


def test_what_comes_late_stays_as_long_as_anything_else():
    """An admission that waited for its lookup is told after its pod is gone: nobody has read it yet."""
    page = Page()
    page.serve(GONE, "one")
    page.ledger.left(GONE)
    for _ in range(FEWEST_READS):
        page.read()
    page.now = KEEP_SECONDS - 1
    page.serve(GONE, "late")
    page.now = KEEP_SECONDS + 1

    assert [page.read() for _ in range(FEWEST_READS)] == [{GONE.replica: 2}] * FEWEST_READS


def test_who_comes_back_goes_on_counting():
    """A StatefulSet's pod has its name again."""
    page = Page()
    page.serve(GONE, "one")
    page.ledger.left(GONE)
    page.ledger.came(GONE)
    page.now = 2 * KEEP_SECONDS
    for _ in range(FEWEST_READS + 1):
        page.read()
    page.serve(GONE, "two")

    assert page.read() == {GONE.replica: 2}
