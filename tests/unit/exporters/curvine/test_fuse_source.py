"""One FUSE client as a source: bytes, times, failures."""

from __future__ import annotations

import pytest

from exporters.curvine.fuse_source import FuseSource
from exporters.curvine.suspicion import PoolSuspect
from tests.curvine_cluster import Answers, text
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.pool import Viewpoint
from tierscope.registry import pool_metrics

URL = "http://node:9002"
PAGE = f"{URL}/metrics"


@pytest.fixture
def folder(captures):
    return captures / "curvine"


@pytest.fixture
def answers(folder):
    return Answers({PAGE: text(folder, "fuse-v0.4")})


@pytest.fixture
def source():
    return FuseSource("pool", URL)


def shown(source, metric):
    return {sample.labels: sample.value for sample in source.samples() if sample.metric is metric}


def grow(answers, *pairs):
    for before, after in pairs:
        assert before in answers.pages[PAGE]
        answers.pages[PAGE] = answers.pages[PAGE].replace(before, after)


def test_a_client_is_a_source_of_its_own(source, answers, folder):
    """Named by pool and address, so that one that hangs is told apart; another process there is refused."""
    assert str(source.source) == "curvine_fuse:pool/node:9002"
    source.read(answers, 1.0)

    answers.pages[PAGE] = text(folder, "worker-0")
    with pytest.raises(SourceUnreadable, match="worker"):
        source.read(answers, 2.0)


def test_it_tells_what_moved_since_the_last_reading(source, answers):
    """By its own calls to the pool."""
    assert source.read(answers, 1.0).entries == []
    grow(
        answers,
        (
            b'bytes_total{io_type="read",path_type="curvine",status="success"} 19084083200',
            b'bytes_total{io_type="read",path_type="curvine",status="success"} 19084084200',
        ),
        (b"client_read_time_us 45500000", b"client_read_time_us 45500500"),
    )

    (moved,) = source.read(answers, 16.0).entries

    assert (moved.seen_by, moved.process) == (Viewpoint.FUSE, "node:9002")
    assert (moved.read_bytes, moved.read_seconds, moved.written_bytes) == (1000, 0.0005, 0)


@pytest.mark.parametrize(
    ("release", "series"),
    [
        (
            "v0.4",
            'curvine_fuse_io_duration_us_{}{{io_type="read",path_type="curvine",status="success"{}}} {}',
        ),
        (
            "v0.3.2",
            'curvine_fuse_request_duration_us_{}{{kind="stream",opcode="Read",status="success"{}}} {}',
        ),
    ],
)
def test_times_are_counted_in_the_clients_own_buckets(source, answers, folder, release, series):
    """Two reads of between 0.5 and 1 ms: from 0.4 on of its calls, before of whole requests."""
    answers.pages[PAGE] = text(folder, f"fuse-{release}")
    source.read(answers, 1.0)
    assert shown(source, pool_metrics.IO_SECONDS) == {}
    lines = []
    for line in answers.pages[PAGE].decode().splitlines():
        head, value = line.rsplit(" ", 1)
        edge = head.partition('le="')[2].partition('"')[0]
        if head == series.format("bucket", f',le="{edge}"', "").strip() and float(edge) >= 1000:
            value = int(value) + 2
        elif head == series.format("sum", "", "").strip():
            value = int(value) + 1500
        lines.append(f"{head} {value}")
    answers.pages[PAGE] = "\n".join(lines).encode()

    source.read(answers, 16.0)

    times = shown(source, pool_metrics.IO_SECONDS)["pool", "node:9002", "read"]
    edges = pool_metrics.IO_BUCKETS_SECONDS
    assert {edge: count for edge, count in zip(edges, times.counts, strict=False) if count} == {0.001: 2}
    assert times.sum == 0.0015


def test_failures_are_counted_by_operation_and_error(source, answers):
    """A missing chunk is an ENOENT of a lookup: no fault, and no finding."""
    source.read(answers, 1.0)
    grow(answers, (b'opcode="Lookup"} 980', b'opcode="Lookup"} 985'))

    reading = source.read(answers, 16.0)

    assert shown(source, pool_metrics.FUSE_ERRORS) == {("pool", "node:9002", "Lookup", "ENOENT"): 5}
    assert reading.findings == []


@pytest.mark.parametrize(("operation", "errno"), [("Write", "EIO"), ("Flush", "EIO"), ("Write", "ENOSPC")])
def test_writes_that_fail_for_want_of_room_are_a_finding(source, answers, operation, errno):
    """Told for a quarter of an hour, for the next reading may have none."""
    source.read(answers, 1.0)
    answers.pages[PAGE] += (
        f'curvine_fuse_errors_total{{errno="{errno}",kind="stream",opcode="{operation}"}} 3\n'.encode()
    )

    (finding,) = source.read(answers, 16.0).findings

    assert finding.kind == PoolSuspect.STORES_FAIL
    assert f"3 writes to the pool failed for want of room in the last 15 minutes ({operation} {errno})" in (
        finding.error.what
    )
    assert len(source.read(answers, 600.0).findings) == 1
    assert source.read(answers, 1000.0).findings == []
