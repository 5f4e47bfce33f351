"""The sections of the L2 board that are about the pool itself."""

from __future__ import annotations

from dashboards.boards.empty import NO_POOL, NO_SCAN
from dashboards.layout import Section
from dashboards.panels import (
    BLOCKS_PER_SECOND,
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    ERRORS_PER_SECOND,
    RATIO,
    SECONDS,
    Panel,
    Query,
    Question,
    lines,
    listing,
    number,
)
from dashboards.queries import pool
from tierscope.registry.metrics import POOL_FILE_BYTES, POOL_REMOVED_BLOCKS, POOL_SCAN_AGE_SECONDS
from tierscope.registry.pool_metrics import (
    ALLOCATABLE,
    BLOCK_OPENS,
    FULL_IN,
    FUSE_ERRORS,
    IO_SECONDS,
    MOVED_BYTES,
    TTL,
    WATERMARK,
    WORKER_AVAILABLE,
    WORKERS,
)

NOT_FILLING = "The pool does not fill, or no Curvine pool is read"


def sections() -> list[Section]:
    """Room, speed, and what lies there."""
    return [
        Section("The pool: its room", [*_now(), _time_to_live(), _watermarks()], height=6),
        Section("The pool: its workers", [_workers(), _workers_room()]),
        Section("The pool: its speed", [_io(), _moved(), _remote(), _errors()]),
        Section("The pool: its files", [_files("kind"), _files("model"), _removed(), _scan_age()]),
    ]


def _now() -> list[Panel]:
    room = Question("Room for new chunks", ALLOCATABLE, NO_POOL, "On live workers alone.")
    full = Question("Full in", FULL_IN, NOT_FILLING)
    return [
        number(room, Query(pool.allocatable(), "{{holder}}"), unit=BYTES),
        number(full, Query(pool.full_in(), "{{holder}}"), unit=SECONDS),
    ]


def _time_to_live() -> Panel:
    question = Question(
        "Time to live",
        TTL,
        "The pool removes nothing for its age, or no Curvine pool is read",
        "The age at which a file is removed.",
    )
    return listing(question, Query(pool.time_to_live(), ""), unit=SECONDS, of="age")


def _watermarks() -> Panel:
    question = Question(
        "Eviction marks", WATERMARK, "The pool evicts nothing by itself, or no Curvine pool is read"
    )
    return listing(question, Query(pool.watermarks(), ""), unit=RATIO, of="fill")


def _workers() -> Panel:
    question = Question("Workers by status", WORKERS, NO_POOL, "Each pool once, however many nodes read it.")
    return lines(question, [Query(pool.workers_by_status(), "{{status}}")], unit=COUNT, stacked=True)


def _workers_room() -> Panel:
    question = Question("Room on the fullest and the emptiest worker", WORKER_AVAILABLE, NO_POOL)
    both = [
        Query(pool.emptiest_and_fullest_worker("min"), "{{holder}} fullest"),
        Query(pool.emptiest_and_fullest_worker("max"), "{{holder}} emptiest"),
    ]
    return lines(question, both, unit=RATIO, largest=1)


def _io() -> Panel:
    question = Question(
        "One read or write, p50 and p99",
        IO_SECONDS,
        "No FUSE client of a pool is read, or nothing was read or written",
    )
    both = [Query(pool.io_seconds(share), f"{{{{direction}}}} p{share * 100:.0f}") for share in (0.5, 0.99)]
    return lines(question, both, unit=SECONDS)


def _moved() -> Panel:
    question = Question(
        "Bytes moved, as each side saw them",
        MOVED_BYTES,
        NO_POOL,
        "The same bytes pass several: never add them.",
    )
    return lines(
        question, [Query(pool.moved_bytes(), "{{direction}} seen by {{seen_by}}")], unit=BYTES_PER_SECOND
    )


def _remote() -> Panel:
    question = Question(
        "Blocks read over the network",
        BLOCK_OPENS,
        "No worker of a pool is read, or nothing was opened in this time",
    )
    return lines(question, [Query(pool.remote_ratio(), "remote")], unit=RATIO, largest=1)


def _errors() -> Panel:
    question = Question(
        "Failed requests",
        FUSE_ERRORS,
        "Nothing failed in this time, or no FUSE client of a pool is read",
        "ENOENT of a lookup is a chunk that is not there; EIO of a write is a pool without room.",
    )
    return lines(question, [Query(pool.errors(), "{{operation}} {{errno}}")], unit=ERRORS_PER_SECOND)


def _files(label: str) -> Panel:
    question = Question(f"Bytes by {label}", POOL_FILE_BYTES, NO_SCAN)
    return lines(question, [Query(pool.file_bytes(label), f"{{{{{label}}}}}")], unit=BYTES, stacked=True)


def _removed() -> Panel:
    question = Question(
        "Chunks that came and went", POOL_REMOVED_BLOCKS, NO_SCAN, "As two scans of the directory differ."
    )
    both = [
        Query(pool.came_and_went(one), f"{name} {{{{model}}}}")
        for one, name in ((pool.CAME, "came"), (pool.WENT, "went"))
    ]
    return lines(question, both, unit=BLOCKS_PER_SECOND)


def _scan_age() -> Panel:
    question = Question("Age of the last scan", POOL_SCAN_AGE_SECONDS, NO_SCAN)
    return lines(question, [Query(pool.scan_age(), "{{holder}}")], unit=SECONDS)
