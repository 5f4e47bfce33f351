"""Whatever a reader reads from sources' streams, it says beside it how much of them arrived."""

from __future__ import annotations

import inspect
import typing

import pytest

from tests.ledgers import START, admission, batch
from tierscope.domain.batch import FeedGap
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.window import TimeSpan
from tierscope.storage.reader import Reader
from tierscope.storage.store import Store

NOT_FROM_STREAMS = {
    "endpoints": "names",
    "history": "the times of the first and the last admission; what lies between comes with its coverage",
    "deployments": "what the collector itself reads from Kubernetes or its settings",
    "latest_recommendation": "a document that has the completeness of its own evidence",
    "recommendation_history": "documents that have the completeness of their own evidence",
    "row_counts": "what is in the tables, whatever arrived",
}
"""Why a method's answer needs no coverage."""

METHODS = {
    name: method
    for name, method in inspect.getmembers(Reader, inspect.isfunction)
    if not name.startswith("_")
}
COVERED = sorted(METHODS.keys() - NOT_FROM_STREAMS.keys())

SPAN = TimeSpan(START - 60, START + 3600)
HOOK = SourceId(SourceKind.VLLM_HOOK, "prod/chat/chat-0/0")
OTHERS = SourceId(SourceKind.VLLM_HOOK, "prod/other/other-0/0")


def lost(source, missing, at=START):
    """An interval of a source in which so many messages never came."""
    return SourceCoverage(source, 1, at, at + 10, received=7, missing=missing)


@pytest.fixture
def reader(tmp_path):
    """A store that misses records of an engine, of another endpoint's engine, and batches of the feed."""
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as store:
        store.append(
            batch(0, admission("ab"), lost(HOOK, 3), lost(OTHERS, 9), lost(HOOK, 50, at=START + 7200))
        )
        position = batch(0).position
        store.append([FeedGap(position.exporter, position.incarnation, 1, 4)])
        yield store.reader()


def coverage_in(answer):
    """The coverage that comes with an answer."""
    return answer if isinstance(answer, tuple) else answer.coverage


@pytest.mark.parametrize("method", METHODS)
def test_every_answer_of_a_reader_has_its_coverage_or_a_reason(method):
    """A method that is added without either is found here, by the type of what it returns."""
    answer = typing.get_type_hints(METHODS[method])["return"]
    has = answer == tuple[SourceCoverage, ...] or hasattr(answer, "coverage")

    assert has != (method in NOT_FROM_STREAMS)


@pytest.mark.parametrize("method", COVERED)
def test_what_was_lost_is_told_with_what_is_there(reader, method):
    """By source, of the span that is asked for, without the engines of others."""
    who = () if method == "coverage" else ("prod", "chat")

    covered = {one.source: one for one in coverage_in(getattr(reader, method)(*who, SPAN))}

    feeds = [one.missing for source, one in covered.items() if source.kind is SourceKind.FEED]
    assert (covered[HOOK].missing, feeds) == (3, [4])
    assert covered[HOOK].completeness_ratio == 0.7
    assert (OTHERS in covered) == (method == "coverage")


@pytest.mark.parametrize("method", COVERED)
def test_a_span_before_every_source_has_no_coverage(reader, method):
    """Nothing is known is not the same as everything arrived."""
    who = () if method == "coverage" else ("prod", "chat")

    assert coverage_in(getattr(reader, method)(*who, TimeSpan(0.0, 10.0))) == ()
