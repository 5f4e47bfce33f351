"""What a row of the rule tables says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How soon someone has to look."""

    INFO = "info"
    """When there is time: it goes to nobody's phone and to nobody's queue."""
    WARNING = "warning"
    """During the day."""
    CRITICAL = "critical"
    """Now: this pages."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A query computed once and kept: `record` is the series' name, `labels` those it keeps.

    Beside them it keeps `cluster`, which only a Prometheus of several clusters has.
    `means` says in a sentence what its values are, with their unit.
    """

    record: str
    expr: str
    labels: tuple[str, ...]
    means: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Something a person has to look at, once it has held for `for_seconds`.

    `means` is its line in the reference. `summary` is one sentence naming what is wrong, `description` what
    that does to the numbers; both may use Prometheus templates. Its runbook is
    `dashboards/runbooks/<name>.md`, `board` the uid of the board on which one goes on looking, with `chosen`,
    labels of its series, as the choices made there; the links are added by code. `labels` are added to
    those of its series.
    """

    name: str
    expr: str
    for_seconds: int
    severity: Severity
    means: str
    summary: str
    description: str
    board: str
    chosen: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules evaluated together, in order, at Prometheus' own interval."""

    name: str
    rules: tuple[Recording | Alert, ...]
