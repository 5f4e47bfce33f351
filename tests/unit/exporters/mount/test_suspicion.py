"""What is found wrong with a pool's directory, and with which numbers."""

from __future__ import annotations

from exporters.mount.figures import Amount, Figures
from exporters.mount.suspicion import DirectorySuspect, judge_directory
from exporters.pools import PoolFacts
from tierscope.domain.severity import Severity
from tierscope.domain.units import GIB

CHUNKS = {("chunk", "org/m-7b"): Amount(1000, 100 * GIB)}


def judged(amounts=(), facts=None, models=()):
    figures = Figures({**CHUNKS, **dict(amounts)})
    found = judge_directory(figures, facts or PoolFacts(), models, where="/mnt/kv")
    return {finding.kind: finding for finding in found}


def test_a_clean_directory_is_not_accused():
    """Also where the pool counts a little more, and caches less: those count their own writes."""
    facts = PoolFacts(used_bytes=int(100.5 * GIB), cache_bytes={"one": 3 * GIB})

    assert judged(facts=facts, models=("m-7b",)) == {}


def test_caches_that_hold_more_than_there_is_drift():
    """Two servers count 150 GiB, of which the pool removed 50."""
    facts = PoolFacts(used_bytes=100 * GIB, cache_bytes={"one": 90 * GIB, "two": 60 * GIB})

    finding = judged(facts=facts)[DirectorySuspect.USAGE_DRIFT]

    assert "100.0 GiB by the directory's files" in finding.error.what
    assert "150.0 GiB by its 2 LMCache servers" in finding.error.what


def test_a_pool_that_holds_more_than_its_directory_drifts():
    """Copies, or other directories; by less than a tenth or a GiB it is nobody's fault."""
    assert DirectorySuspect.USAGE_DRIFT in judged(facts=PoolFacts(used_bytes=200 * GIB))
    assert judged(facts=PoolFacts(used_bytes=109 * GIB)) == {}


def test_dead_files_are_told_once_they_are_worth_deleting():
    """Two per cent of the directory; one unfinished file of a byte is not."""
    finding = judged({("dead_temp", "org/m-7b"): Amount(20, 2 * GIB)})[DirectorySuspect.DEAD_FILES]

    assert "20 files of 2.0 GiB" in finding.error.what
    assert judged({("dead_temp", "org/m-7b"): Amount(1, 1)}) == {}


def test_foreign_files_are_told_and_weighed():
    """A readme is of interest, a backup in the pool a warning."""
    small = judged({("foreign", "unknown"): Amount(1, 10)})[DirectorySuspect.FOREIGN_FILES]
    large = judged({("foreign", "unknown"): Amount(3, 50 * GIB)})[DirectorySuspect.FOREIGN_FILES]

    assert (small.severity, large.severity) == (Severity.INFO, Severity.WARNING)


def test_models_nobody_named_are_told_where_somebody_named_some():
    """By the last part of their names, as engines serve them; those beyond the labels are not judged."""
    strange = {("chunk", "old/m-3b"): Amount(5, GIB), ("chunk", "other"): Amount(9, GIB)}

    finding = judged(strange, models=("served/M-7B",))[DirectorySuspect.FOREIGN_MODELS]

    assert "5 files of 1.0 GiB" in finding.error.what
    assert "old/m-3b" in finding.error.what
    assert judged(strange) == {}
