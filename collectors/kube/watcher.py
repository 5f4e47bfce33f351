"""The deployments in force, kept up to date from Kubernetes, and stored whenever one of them changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from collectors.complaints import Complaints
from collectors.kube.assemble import deployments as assembled
from collectors.kube.kinds import KINDS
from collectors.kube.objects import Kube
from collectors.kube.reflector import Lists, Reflector
from collectors.kube.state import Cluster, Key
from tierscope.domain.deployment import Deployment, Objective
from tierscope.domain.errors import TierscopeError
from tierscope.domain.kv_size import ModelShape
from tierscope.domain.worker import Worker
from tierscope.registry import metrics
from tierscope.registry.types import Sample

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0
"""How long changes are gathered before the deployments are put together anew: a rollout is many changes."""

RETRY_SECONDS = 30.0
"""After which what the store refused is offered again."""


class KubeWatcher(Worker):
    """Watches every kind we read in some namespaces (none named: in all), and puts deployments together.

    `record` is given each deployment that is new or has changed. Nothing is told before every kind has been
    listed once: half a picture would look like a change.
    """

    def __init__(
        self,
        api: Lists,
        namespaces: Sequence[str],
        record: Callable[[Deployment], object],
        complaints: Complaints,
        *,
        shapes: Mapping[str, ModelShape],
        objective: Objective,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        super().__init__("kube-deployments")
        self._record = record
        self._complaints = complaints
        self._shapes = shapes
        self._objective = objective
        self._settle_seconds = settle_seconds
        self._changed = threading.Event()
        self._current: dict[tuple[str, str], Deployment] = {}
        self._recorded: dict[tuple[str, str], Deployment] = {}
        self._reflectors = tuple(
            Reflector(api, kind, namespace, self._changed.set, complaints)
            for kind in KINDS
            for namespace in ((namespaces or (None,)) if kind.namespaced else (None,))
        )

    def start(self) -> None:
        """Begin to watch."""
        for reflector in self._reflectors:
            reflector.start()
        super().start()

    def stop(self) -> None:
        """Ask every thread to end."""
        super().stop()
        self._changed.set()
        for reflector in self._reflectors:
            reflector.stop()

    def join(self) -> None:
        """Wait until every thread has ended."""
        for reflector in self._reflectors:
            reflector.join()
        super().join()

    @property
    def alive(self) -> bool:
        """Whether every thread runs."""
        return super().alive and all(one.alive for one in self._reflectors)

    def deployments(self) -> tuple[Deployment, ...]:
        """The deployments in force, by namespace and name; none before everything was listed once."""
        return tuple(self._current[name] for name in sorted(self._current))

    def cluster(self) -> Cluster:
        """Every object that is held now."""
        found: dict[str, dict[Key, Kube]] = {}
        for reflector in self._reflectors:
            found.setdefault(reflector.kind.name, {}).update(reflector.objects())
        return Cluster(found)

    def samples(self) -> Iterator[Sample]:
        """Yield of each kind whether what we hold of it is up to date."""
        for kind in KINDS:
            ups = [one.is_up for one in self._reflectors if one.kind is kind]
            yield Sample(metrics.KUBE_WATCH_UP, (kind.plural,), int(all(ups)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait(None if self._recorded == self._current else RETRY_SECONDS)
            if self._stopping.wait(self._settle_seconds):
                return
            self._changed.clear()
            if all(reflector.has_listed for reflector in self._reflectors):
                self._renew()

    def _renew(self) -> None:
        try:
            found = assembled(self.cluster(), shapes=self._shapes, objective=self._objective)
        except Exception:  # an object we did not foresee must not end the watch
            log.exception("the deployments could not be put together")
            return
        now = {(one.namespace, one.endpoint): one for one in found}
        self._recorded = {
            name: one for name, one in now.items() if self._recorded.get(name) == one or self._keep(one)
        }
        self._current = now

    def _keep(self, deployment: Deployment) -> bool:
        """Record a deployment; whether the store has it."""
        who = f"the deployment of {deployment.namespace}/{deployment.endpoint}"
        try:
            self._record(deployment)
        except TierscopeError as error:
            self._complaints.say(who, error)
            return False
        self._complaints.over(who)
        return True
