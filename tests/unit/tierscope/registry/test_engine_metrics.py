"""The table of engines' own metrics: every name is one an engine was seen to use."""

from __future__ import annotations

import pytest

from tests.vllm_pages import RELEASES, Page, Request
from tierscope.registry import engine_metrics
from tierscope.registry.engine_metrics import ENGINE_METRICS, VLLM, EngineMetric
from tierscope.registry.types import Kind

each_row = pytest.mark.parametrize("row", ENGINE_METRICS, ids=lambda row: row.names[0])

NEVER_CAPTURED = {
    "lmcache_mp_l2_evicted_objects_chunks": "the recorded server evicted nothing from L2",
    "lmcache:remote_time_to_get": "the recorded LMCache waits for its reads, under another name",
}
"""Names known from the engine's source code alone, and why no recorded page has them."""


@pytest.fixture(scope="module")
def seen(repository) -> str:
    """Every recorded page, and a derived one of each vLLM release."""
    captures = repository / "tests/fixtures/captures"
    pages = [path.read_text("utf-8") for path in captures.rglob("*metrics*.txt")]
    derived = [Page(release, {"0": [Request(100)]}).text() for release in RELEASES.values()]
    return "\n".join(["", *pages, *derived])


@each_row
def test_every_name_stands_on_a_page(seen, row):
    """Recorded from the engine, or derived from its release's table of names."""
    part = "_bucket" if row.kind is Kind.HISTOGRAM else "_total" if row.kind is Kind.COUNTER else ""
    for name in row.names:
        assert (f"\n{name}{part}" in seen) == (name not in NEVER_CAPTURED), name


def test_every_row_is_listed_once():
    """A row that no list has is in no lint."""
    rows = [value for value in vars(engine_metrics).values() if isinstance(value, EngineMetric)]

    assert sorted(row.names for row in rows) == sorted(row.names for row in ENGINE_METRICS)
    assert len({name for row in ENGINE_METRICS for name in row.names}) == sum(
        len(row.names) for row in ENGINE_METRICS
    )


@each_row
def test_a_row_asks_a_question(row):
    """It is what stands on the panel that shows it."""
    assert row.answers.endswith("?")


@pytest.mark.parametrize(
    "row", [row for row in VLLM if row.kind is Kind.COUNTER], ids=lambda row: row.names[0]
)
def test_a_counter_is_looked_for_with_its_ending_once_none_and_twice(row):
    """UD-17: whatever a client or a relay makes of the name; the newest name comes first."""
    assert row.spellings[:3] == (f"{row.names[0]}_total", row.names[0], f"{row.names[0]}_total_total")
    assert len(row.spellings) == 3 * len(row.names)
