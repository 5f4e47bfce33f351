"""Which deployments there are: those in the settings, and those that run in Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from collectors.complaints import Complaints
from collectors.kube.assemble import deployments as assembled
from collectors.kube.files import cluster_from, model_shapes
from tierscope.domain.deployment import Deployment
from tierscope.domain.settings import CollectorSettings, KubernetesSettings

if TYPE_CHECKING:
    from collectors.kube.watcher import KubeWatcher

Record = Callable[[Deployment], object]


class Deployments:
    """Every deployment to advise on, each recorded when it is first seen and when it has changed.

    One that the settings list is as they say, whatever Kubernetes has. `start` begins to watch; without
    Kubernetes, or with files instead of its API, everything is known at once. Raises `BadSettings` where the
    API cannot be found and `BadInput` for a file that cannot be read.
    """

    def __init__(self, settings: CollectorSettings, record: Record, complaints: Complaints) -> None:
        self._configured = settings.deployments
        self._names = {(one.namespace, one.endpoint) for one in settings.deployments}
        self._found: tuple[Deployment, ...] = ()
        self._watcher: KubeWatcher | None = None
        self._record = record
        for deployment in settings.deployments:
            record(deployment)
        if settings.kubernetes is not None:
            self._read(settings.kubernetes, complaints)

    def __call__(self) -> Sequence[Deployment]:
        """The deployments there are now."""
        found = self._found if self._watcher is None else self._watcher.deployments()
        return (*self._configured, *(one for one in found if not self._is_configured(one)))

    @property
    def watcher(self) -> KubeWatcher | None:
        """What watches Kubernetes; None where nothing is watched."""
        return self._watcher

    def _read(self, kubernetes: KubernetesSettings, complaints: Complaints) -> None:
        shapes = model_shapes(kubernetes.models)
        if kubernetes.manifests:
            cluster = cluster_from(kubernetes.manifests)
            self._found = assembled(cluster, shapes=shapes, objective=kubernetes.objective)
            for deployment in self._found:
                self._keep(deployment)
            return
        # The Kubernetes client takes seconds to import; only who watches waits for it.
        from collectors.kube.client import connect  # noqa: PLC0415
        from collectors.kube.watcher import KubeWatcher  # noqa: PLC0415

        self._watcher = KubeWatcher(
            connect(kubernetes.kubeconfig, kubernetes.context),
            kubernetes.namespaces,
            self._keep,
            complaints,
            shapes=shapes,
            objective=kubernetes.objective,
        )

    def _keep(self, deployment: Deployment) -> None:
        if not self._is_configured(deployment):
            self._record(deployment)

    def _is_configured(self, deployment: Deployment) -> bool:
        return (deployment.namespace, deployment.endpoint) in self._names
