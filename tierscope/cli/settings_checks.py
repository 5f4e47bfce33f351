"""What a settings file must satisfy beyond its types: values in range, names that meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass

from tierscope.domain.deployment import Objective, ObjectiveKind
from tierscope.domain.errors import TierscopeError
from tierscope.domain.settings import CollectorSettings, ExporterSettings
from tierscope.domain.units import MIB

Check = tuple[Callable[[float], bool], str]

POSITIVE: Check = (lambda value: value > 0, "a number above 0")
PORT: Check = (lambda value: 0 <= value <= 65535, "a port from 0 to 65535")
RATIO: Check = (lambda value: 0 < value <= 1, "a ratio above 0 and at most 1")
SHARE: Check = (lambda value: 0 <= value < 1, "a share from 0 to below 1")
DUCKDB_MEMORY: Check = (lambda value: value >= 256 * MIB, "256 MiB or more")
"""DuckDB ends a store's connection when it has no memory to fold the log into the file."""
NOT_NEGATIVE: Check = (lambda value: value >= 0, "0 or more")


def problems_in(settings: object, file: str, place: str = "") -> Iterator[TierscopeError]:
    """Yield every value out of range and every name that meets nothing, at any depth of the settings."""
    if isinstance(settings, ExporterSettings):
        yield from _names_in(settings, file, place)
    if isinstance(settings, Objective):
        yield from _aim_of(settings, file, place)
    if isinstance(settings, CollectorSettings):
        yield from _twice((feed.name for feed in settings.feeds), f"{file}, {place}.feeds")
        endpoints = (f"{one.namespace}/{one.endpoint}" for one in settings.deployments)
        yield from _twice(endpoints, f"{file}, {place}.deployments")
    if isinstance(settings, tuple):
        for index, item in enumerate(settings):
            yield from problems_in(item, file, f"{place}[{index}]")
    elif is_dataclass(settings):
        for field in fields(settings):
            inner = f"{place}.{field.name}".removeprefix(".")
            yield from problems_in(getattr(settings, field.name), file, inner)
    elif isinstance(settings, int | float) and not isinstance(settings, bool):
        yield from _out_of_range(settings, file, place)


def _check_for(name: str) -> Check:
    """The rule for a number, told by its name: units are part of every name."""
    if name.endswith("_port"):
        return PORT
    if name == "store_memory_bytes":
        return DUCKDB_MEMORY
    if name == "uncertainty_ratio":
        return SHARE
    if name.endswith("_ratio") or "_ratios[" in name:
        return RATIO
    if name in ("rank", "tenant_series"):
        return NOT_NEGATIVE
    return POSITIVE


def _out_of_range(value: float, file: str, place: str) -> Iterator[TierscopeError]:
    holds, wish = _check_for(place.rpartition(".")[2])
    if not holds(value):
        yield TierscopeError(
            f"{value} cannot be used here", where=f"{file}, {place}", fix=f"it should be {wish}"
        )


def _aim_of(objective: Objective, file: str, place: str) -> Iterator[TierscopeError]:
    """A hit ratio is at most 1; money and seconds may be more."""
    is_ratio = objective.kind in {ObjectiveKind.HIT_RATIO_SHARE, ObjectiveKind.HIT_RATIO}
    if is_ratio and objective.target > 1:
        yield TierscopeError(
            f"{objective.target} cannot be used here",
            where=f"{file}, {place}.target",
            fix=f"it should be {RATIO[1]} for the kind {objective.kind.value}",
        )


def _names_in(exporter: ExporterSettings, file: str, place: str) -> Iterator[TierscopeError]:
    engines = (f"{one.namespace}/{one.endpoint}/{one.replica}/{one.rank}" for one in exporter.engines)
    yield from _twice(engines, f"{file}, {place}.engines")
    servers = [server.name for server in exporter.lmcache]
    servers += [one.name for one in exporter.lmcache_in_process]
    pools = [pool.name for pool in exporter.curvine]
    mounted = [mount.pool for mount in exporter.mounts]
    yield from _twice(servers, f"{file}, {place}.lmcache")
    yield from _twice(pools, f"{file}, {place}.curvine")
    yield from _twice(mounted, f"{file}, {place}.mounts")
    wanted_servers = [(engine.lmcache, f"engines[{i}].lmcache") for i, engine in enumerate(exporter.engines)]
    wanted_pools = [(server.pool, f"lmcache[{i}].pool") for i, server in enumerate(exporter.lmcache)]
    yield from _uneven(exporter, f"{file}, {place}")
    yield from _unknown(wanted_servers, servers, f"{file}, {place}")
    wanted_pools += [
        (one.pool, f"lmcache_in_process[{i}].pool") for i, one in enumerate(exporter.lmcache_in_process)
    ]
    yield from _unknown(wanted_pools, list(dict.fromkeys([*pools, *mounted])), f"{file}, {place}")


def _uneven(exporter: ExporterSettings, where: str) -> Iterator[TierscopeError]:
    """Addresses of workers that are not one a worker."""
    for i, inside in enumerate(exporter.lmcache_in_process):
        for name in ("storage_endpoints", "storage_replay_endpoints"):
            given = len(getattr(inside, name))
            if given not in (0, inside.workers):
                yield TierscopeError(
                    f"{given} addresses for {inside.workers} workers",
                    where=f"{where}.lmcache_in_process[{i}].{name}",
                    fix="give one a worker, or none",
                )


def _twice(names: Iterable[str], where: str) -> Iterator[TierscopeError]:
    for name, times in Counter(names).items():
        if times > 1:
            yield TierscopeError(
                f"the name '{name}' is used {times} times", where=where, fix="give each its own"
            )


def _unknown(
    wanted: Iterable[tuple[str | None, str]], known: list[str], where: str
) -> Iterator[TierscopeError]:
    for name, field in wanted:
        if name is not None and name not in known:
            fix = (
                f"use one of {', '.join(known)}" if known else "add an entry with that name, or leave it out"
            )
            yield TierscopeError(f"nothing is named '{name}'", where=f"{where}.{field}", fix=fix)
