"""Which requests are judged together: those of one model on the replicas of one workload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tierscope.analytics.regression.observations import tells_ttft
from tierscope.domain.identity import EngineId
from tierscope.domain.requests import UNKNOWN_MODEL
from tierscope.domain.trace import Int64Array
from tierscope.domain.window import RequestWindow

MOST_GROUPS = 16
"""Groups of an endpoint with a baseline of their own; requests of any more are judged together."""


class Group(NamedTuple):
    """A model, and the Deployment or StatefulSet whose replicas serve it; empty where names do not tell."""

    model: str
    workload: str


OTHERS = Group("other", "other")


class Groups:
    """The groups that an endpoint has now."""

    def __init__(self) -> None:
        self._known: set[Group] = set()
        self._serves: dict[EngineId, str] = {}

    def of(self, window: RequestWindow) -> tuple[tuple[Group, ...], Int64Array]:
        """The groups of a window, and which of them each of its requests (n,) is of; -1: of none.

        An engine's first requests may come before its model is told: they count to what it serves. One whose
        requests tell no TTFT has nothing to be judged by, and takes no place that another can use.
        """
        pairs, which = np.unique(np.stack((window.engine, window.model)), axis=1, return_inverse=True)
        which = which.reshape(-1)
        served = [(window.engines[engine], window.models[model]) for engine, model in pairs.T.tolist()]
        self._serves |= {engine: model for engine, model in served if model != UNKNOWN_MODEL}
        of_pairs = [self._group(engine, model) for engine, model in served]
        tells = np.bincount(which[tells_ttft(window)], minlength=len(of_pairs)) > 0
        judged = self._known.union(group for group, told in zip(of_pairs, tells, strict=True) if told)
        named = {group: self._admit(group) for group in of_pairs if group in judged}
        groups = tuple(sorted(set(named.values())))
        numbers = {group: groups.index(name) for group, name in named.items()}
        return groups, np.array([numbers.get(group, -1) for group in of_pairs], dtype=np.int64)[which]

    def forget(self, group: Group) -> None:
        """It is gone: another may take its place."""
        self._known.discard(group)

    def forget_engines(self, engines: Iterable[EngineId]) -> None:
        """They are gone: what each serves is told anew if it returns."""
        for engine in engines:
            self._serves.pop(engine, None)

    def _group(self, engine: EngineId, model: str) -> Group:
        if model == UNKNOWN_MODEL:
            model = self._serves.get(engine, model)
        return Group(model, engine.workload)

    def _admit(self, group: Group) -> Group:
        if group not in self._known and len(self._known) >= MOST_GROUPS:
            return OTHERS
        self._known.add(group)
        return group
