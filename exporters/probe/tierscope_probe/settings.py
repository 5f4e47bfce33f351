"""Settings of the probe: one kill switch, two addresses, two bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

OFF = frozenset({"0", "false", "off", "no"})

NAMES = (
    "endpoint",
    "replay_endpoint",
    "queue_records",
    "ring_bytes",
    "address_file",
)
"""What may be set: in the connector's extra config under `tierscope`, or as TIERSCOPE_PROBE_<NAME>."""


@dataclass(frozen=True)
class ProbeSettings:
    """How one engine publishes its records.

    `endpoint` and `replay_endpoint` are bound; their port is that of rank 0, and rank r uses port + r. Port 0
    lets the system choose. `queue_records` bounds what waits for the sender, `ring_bytes` what may be asked
    for again. `address_file` receives the bound addresses as JSON; `{rank}` and `{form}` in it are filled in.
    `problems` names every setting that was not understood and so stands at its default.
    """

    enabled: bool = True
    endpoint: str = "tcp://*:5757"
    replay_endpoint: str = "tcp://*:5857"
    queue_records: int = 50_000
    ring_bytes: int = 64 * 1024 * 1024
    address_file: str | None = None
    stat_logger: bool = False
    problems: tuple[str, ...] = ()


def read_settings(extra: Mapping[str, object], environ: Mapping[str, str]) -> ProbeSettings:
    """Read the settings from a connector's extra config and from the environment; never raises.

    The extra config wins over the environment, except that TIERSCOPE_PROBE=0 always switches off.
    """
    settings = ProbeSettings(
        enabled=environ.get("TIERSCOPE_PROBE", "1").lower() not in OFF,
        stat_logger=environ.get("TIERSCOPE_PROBE_STAT_LOGGER", "0").lower() not in OFF,
    )
    given = extra.get("tierscope", {})
    if not isinstance(given, Mapping):
        settings = _with_problem(settings, f"tierscope: {given!r} is not an object")
        given = {}
    for name in given:
        if name not in NAMES:
            settings = _with_problem(settings, f"{name}: not a setting; there are {', '.join(NAMES)}")
    for name in NAMES:
        value = given.get(name, environ.get(f"TIERSCOPE_PROBE_{name.upper()}"))
        if value is not None:
            settings = _with(settings, name, value)
    return settings


def _with(settings: ProbeSettings, name: str, value: object) -> ProbeSettings:
    if name not in ("queue_records", "ring_bytes"):
        if isinstance(value, str) and value:
            return _replaced(settings, name, value)
        return _with_problem(settings, f"{name}: {value!r} is not a text")
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number <= 0:
        return _with_problem(settings, f"{name}: {value!r} is not a number above 0")
    return _replaced(settings, name, number)


def _replaced(settings: ProbeSettings, name: str, value: str | int) -> ProbeSettings:
    changes: dict[str, object] = {name: value}
    return replace(settings, **changes)  # type: ignore[arg-type]  # the names are NAMES


def _with_problem(settings: ProbeSettings, problem: str) -> ProbeSettings:
    return replace(settings, problems=(*settings.problems, problem))


def at_rank(endpoint: str, rank: int) -> str:
    """Return the address of one data-parallel rank: port + rank; paths get a suffix; port 0 stays 0."""
    if rank == 0:
        return endpoint
    port = re.search(r":(\d+)$", endpoint)
    if endpoint.startswith("tcp:") and port:
        number = int(port[1])
        return endpoint[: port.start()] + f":{number + rank if number else 0}"
    return endpoint if endpoint.endswith(":*") else f"{endpoint}.rank{rank}"
