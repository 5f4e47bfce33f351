"""Every kind of object we watch: its address in the API, its type, and what we read it for."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.kube.objects import (
    Claim,
    ConfigMap,
    Endpoint,
    Gateway,
    Kube,
    Node,
    Pod,
    StorageClass,
    Workload,
)

HYPERPOD = "inference.sagemaker.aws.amazon.com"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    name: str
    """As objects name it in `kind`."""
    group: str
    """API group; empty for the core."""
    version: str
    plural: str
    type: type[Kube]
    why: str
    namespaced: bool = True
    is_optional: bool = False
    """Whether a cluster may do without it: a custom resource whose definition is not installed."""

    def path(self, namespace: str | None) -> str:
        """Its list in one namespace, or in all of them."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


ENDPOINT = Kind(
    "InferenceEndpointConfig",
    HYPERPOD,
    "v1",
    "inferenceendpointconfigs",
    Endpoint,
    "endpoints: replicas, routing, cache switches, engine arguments",
    is_optional=True,
)
JUMPSTART = Kind(
    "JumpStartModel", HYPERPOD, "v1", "jumpstartmodels", Endpoint, "endpoints, as above", is_optional=True
)
GATEWAY = Kind(
    "InferenceGatewayConfig",
    HYPERPOD,
    "v1alpha1",
    "inferencegatewayconfigs",
    Gateway,
    "weights of the gateway's scores",
    is_optional=True,
)
DEPLOYMENT = Kind(
    "Deployment", "apps", "v1", "deployments", Workload, "what the operator made of a resource, and patches"
)
STATEFUL_SET = Kind(
    "StatefulSet", "apps", "v1", "statefulsets", Workload, "Curvine's workers: the size of L2"
)
POD = Kind("Pod", "", "v1", "pods", Pod, "what runs, with which variables and on which node")
CONFIG_MAP = Kind("ConfigMap", "", "v1", "configmaps", ConfigMap, "configuration of LMCache and of Curvine")
CLAIM = Kind(
    "PersistentVolumeClaim",
    "",
    "v1",
    "persistentvolumeclaims",
    Claim,
    "which pods mount the pool, sizes of its disks",
)
NODE = Kind("Node", "", "v1", "nodes", Node, "allocatable memory", namespaced=False)
STORAGE_CLASS = Kind(
    "StorageClass",
    "storage.k8s.io",
    "v1",
    "storageclasses",
    StorageClass,
    "which pool a claim is on, and how long files stay in it",
    namespaced=False,
)

KINDS = (ENDPOINT, JUMPSTART, GATEWAY, DEPLOYMENT, STATEFUL_SET, POD, CONFIG_MAP, CLAIM, NODE, STORAGE_CLASS)
