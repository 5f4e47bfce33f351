"""Settings of the scan of a pool where it is mounted."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.documented import documented


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSettings:
    """One pool read where it is mounted: its files by name, its size by `statvfs`.

    Let one exporter of the cluster scan a pool: each scan tells all of the pool's evictions.
    """

    pool: str = documented("Name of the pool (see `curvine`), unique in this file; the holder name of L2.")
    path: str = documented("Directory at or below the mount point that holds the chunk files.")
    must_be_mounted: bool = documented(
        "Refuse the directory while it lies on the file system of `/`: the volume is not mounted then.",
        default=True,
    )
    scan_seconds: float = documented("Time from the start of one scan to the next.", default=60.0)
    names_per_second: float = documented("Most file names a scan lists in a second.", default=1_000_000.0)
    lookups_per_second: float = documented(
        "Most directories a scan opens and new files whose size it asks for, in a second.", default=25_000.0
    )
    timeout_seconds: float = documented(
        "Longest wait for one answer of the mount; after it the source is down until it answers.",
        default=10.0,
    )
    dead_after_seconds: float = documented(
        "Age at which a temporary file is dead: no writer will finish it.", default=3600.0
    )
    temporary_directories: tuple[str, ...] = documented(
        "Names of directories that hold files being written (LMCache's `relative_tmp_dir`).", default=()
    )
    models: tuple[str, ...] = documented(
        "Models that use the pool, as they are served; chunks of others are a finding. None: not judged.",
        default=(),
    )
    state_file: str | None = documented(
        "File that keeps what the last scan found, so that evictions during a restart of the exporter "
        "are seen; none: they are not.",
        default=None,
    )
