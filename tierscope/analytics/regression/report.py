"""A stretch of an endpoint's history, judged afterwards: what was found in it, and whether it goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from tierscope.analytics.regression.detector import (
    DEFAULTS,
    LEAST_BASELINE_REQUESTS,
    DetectorSettings,
)
from tierscope.analytics.regression.endpoint import EndpointWatch, Found, Watched
from tierscope.analytics.regression.groups import Group, Groups
from tierscope.analytics.regression.observations import tells_ttft
from tierscope.analytics.regression.words import document
from tierscope.domain.severity import Severity
from tierscope.domain.trace import FloatArray
from tierscope.domain.window import Evidence

CRITICAL_RATIO = 1.5


class Verdict(StrEnum):
    """What a report says of a group."""

    NOT_JUDGED = "not_judged"
    """Too few requests before the moment asked for say what is usual: neither well nor worse."""
    WATCHING = "watching"
    """Nothing is raised at the end."""
    RAISED = "raised"


class Judged(NamedTuple):
    """A model on a workload's replicas: its requests before and since, and whose say what is usual."""

    group: Group
    verdict: Verdict
    before_requests: int
    """Its own before the moment, from when the configuration was what it is."""
    requests: int
    """Its own since."""
    baseline_of: Group | None = None
    """Whose requests say what is usual: its own, or those of the kin it is held against; None: nobody's."""
    baseline_requests: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        """The group in the documents of the API and of the command."""
        return {
            "model": self.group.model,
            "workload": self.group.workload,
            "state": self.verdict.value,
            "before_requests": self.before_requests,
            "baseline_requests": self.baseline_requests,
            "baseline_workload": None if self.baseline_of is None else self.baseline_of.workload,
            "requests": self.requests,
        }


@dataclass(frozen=True, slots=True)
class RegressionReport:
    """What was found since a moment, by group; what came before it says what is usual.

    Where no group has enough of that nothing is judged, and nothing can be found.
    """

    endpoint: str
    since_unix_seconds: float
    groups: tuple[Judged, ...]
    found: tuple[Found, ...] = ()
    raised: tuple[Found, ...] = ()
    """What goes on at the end, whenever it was found."""

    @property
    def earlier(self) -> tuple[Found, ...]:
        """What goes on but was found before that moment. It has no severity here: nothing since did it."""
        return tuple(one for one in self.raised if one not in self.found)

    @property
    def verdict(self) -> Verdict:
        """Raised if any group is; not judged if none is."""
        said = {one.verdict for one in self.groups}
        return next((one for one in (Verdict.RAISED, Verdict.WATCHING) if one in said), Verdict.NOT_JUDGED)

    @property
    def baseline_requests(self) -> int:
        """Requests that say what is usual, each once; where nothing is judged, those that are too few."""
        if self.verdict is Verdict.NOT_JUDGED:
            return sum(one.before_requests for one in self.groups)
        return sum({one.baseline_of: one.baseline_requests for one in self._judged()}.values())

    @property
    def requests(self) -> int:
        """Requests since the moment asked for; those of groups that are not judged count where none is."""
        return sum(one.requests for one in self._judged() or self.groups)

    def _judged(self) -> list[Judged]:
        return [one for one in self.groups if one.verdict is not Verdict.NOT_JUDGED]

    @property
    def severity(self) -> Severity | None:
        """`info`: it is over, `warning`: it goes on, `critical`: by half and more; None: nothing found."""
        if not self.found:
            return None
        ratios = [one.regression.ratio for one in self.raised if one in self.found]
        if not ratios:
            return Severity.INFO
        return Severity.CRITICAL if max(ratios) >= CRITICAL_RATIO else Severity.WARNING

    def to_json(self) -> dict[str, JsonValue]:
        """The document of the API and of the command."""
        severity, alone = self.severity, len(self.groups) == 1
        return {
            "endpoint": self.endpoint,
            "since_unix_seconds": self.since_unix_seconds,
            "state": self.verdict.value,
            "severity": None if severity is None else severity.value,
            "baseline_requests": self.baseline_requests,
            "requests": self.requests,
            "groups": [one.to_json() for one in self.groups],
            "regressions": [document(one, self.endpoint, alone=alone) for one in self.found],
            "earlier": [document(one, self.endpoint, alone=alone) for one in self.earlier],
        }


def regress(
    evidence: Evidence,
    endpoint: str,
    since_unix_seconds: float,
    settings: DetectorSettings = DEFAULTS,
    *,
    changes_unix_seconds: Sequence[float] = (),
) -> RegressionReport:
    """Learn from what came before `since_unix_seconds` and from nothing else, and judge what came after.

    A group that has too little before is not judged, unless it began when its kin had a baseline already:
    then it is held against that.

    `changes_unix_seconds` are those of the configuration in that time.
    """
    window = evidence.window
    tells = tells_ttft(window)
    told = window.at_unix_seconds[tells]
    cut = _usual_since(told, since_unix_seconds, changes_unix_seconds, settings.settle_seconds)
    watch = EndpointWatch(settings, learn_until_unix_seconds=since_unix_seconds)
    changes = [at for at in changes_unix_seconds if at == cut or at >= since_unix_seconds]
    found = watch.feed(window, evidence.samples, changes)
    known, of_request = Groups().of(window) if window.requests else ((), np.zeros(0, dtype=np.int64))
    watched, judged = watch.watched(), []
    learnt_from = -math.inf if cut is None else cut + settings.settle_seconds
    for number, group in enumerate(known):
        at = told[of_request[tells] == number]
        before = int(((at >= learnt_from) & (at < since_unix_seconds)).sum())
        after = int((at >= since_unix_seconds).sum())
        judged.append(_judged(group, watched[group], before, after))
    recent = tuple(one for one in found if one.regression.found_unix_seconds >= since_unix_seconds)
    raised = tuple(Found(group, each) for group, one in watched.items() for each in one.raised)
    return RegressionReport(endpoint, since_unix_seconds, tuple(judged), recent, raised)


def _judged(group: Group, watched: Watched, before_requests: int, requests: int) -> Judged:
    baseline = watched.detector.baseline
    if baseline is None:
        return Judged(group, Verdict.NOT_JUDGED, before_requests, requests)
    verdict = Verdict.RAISED if watched.raised else Verdict.WATCHING
    usual = len(baseline.past.prompt)
    return Judged(group, verdict, before_requests, requests, watched.baseline_of, usual)


def _usual_since(
    told: FloatArray, since_unix_seconds: float, changes: Sequence[float], settle_seconds: float
) -> float | None:
    """The latest change that still leaves enough requests before `since`, once caches had time to fill."""
    enough = [
        at
        for at in changes
        if ((told >= at + settle_seconds) & (told < since_unix_seconds)).sum() >= LEAST_BASELINE_REQUESTS
    ]
    return max(enough, default=None)
