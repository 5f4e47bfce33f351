"""The Kubernetes objects we read, each cut down to the fields we use; what else is in them is left behind.

Secrets are never among them. Fields have Kubernetes' own names, written as Python does.
"""

from __future__ import annotations

from msgspec import Struct, field

Quantities = dict[str, str | int | float]


class Kube(Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all: unknown fields are passed over, a null is an absent field."""


class Owner(Kube, frozen=True):
    """Who an object belongs to."""

    kind: str
    name: str
    uid: str = ""


class Metadata(Kube, frozen=True):
    """Names and marks of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None
    """Set once it is to be deleted: a pod that ends still runs."""
    owner_references: tuple[Owner, ...] = ()


class Variable(Kube, frozen=True):
    """An environment variable; `value` is None where it comes from somewhere else."""

    name: str
    value: str | None = None


class Resources(Kube, frozen=True):
    """What a container asks for and may have; None where the object has no such part."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Mount(Kube, frozen=True):
    """Where a volume is mounted."""

    name: str
    mount_path: str = ""


class Container(Kube, frozen=True):
    """One container of a pod."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[Mount, ...] = ()


class ConfigMapVolume(Kube, frozen=True):
    """A volume made of a ConfigMap."""

    name: str = ""


class ClaimVolume(Kube, frozen=True):
    """A volume that a claim stands for."""

    claim_name: str


class Volume(Kube, frozen=True):
    """A volume of a pod, as far as we follow it."""

    name: str
    config_map: ConfigMapVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None


class PodSpec(Kube, frozen=True):
    """What a pod runs and where."""

    node_name: str | None = None
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodStatus(Kube, frozen=True):
    """How far a pod is."""

    phase: str = "Unknown"
    pod_ip: str | None = field(name="podIP", default=None)


class Pod(Kube, frozen=True):
    """One pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Template(Kube, frozen=True):
    """The pods of a workload."""

    spec: PodSpec = PodSpec()


class Selector(Kube, frozen=True):
    """Which pods are a workload's."""

    match_labels: dict[str, str] = {}


class ClaimSpec(Kube, frozen=True):
    """What a claim asks for."""

    resources: Resources = Resources()
    storage_class_name: str | None = None


class Claim(Kube, frozen=True):
    """A PersistentVolumeClaim, or a template of one."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()


class WorkloadSpec(Kube, frozen=True):
    """A Deployment or StatefulSet as it is meant to be."""

    replicas: int = 1
    selector: Selector = Selector()
    template: Template = Template()
    volume_claim_templates: tuple[Claim, ...] = ()


class Workload(Kube, frozen=True):
    """A Deployment or a StatefulSet."""

    metadata: Metadata
    spec: WorkloadSpec = WorkloadSpec()


class NodeStatus(Kube, frozen=True):
    """What a node has to give."""

    allocatable: Quantities = {}


class Node(Kube, frozen=True):
    """One node."""

    metadata: Metadata
    status: NodeStatus = NodeStatus()


class StorageClass(Kube, frozen=True):
    """How claims of a class are provided for."""

    metadata: Metadata
    provisioner: str = ""
    parameters: dict[str, str] = {}


class ConfigMap(Kube, frozen=True):
    """Files in a ConfigMap."""

    metadata: Metadata
    data: dict[str, str] = {}


class Worker(Kube, frozen=True):
    """The engine as an InferenceEndpointConfig declares it."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    environment_variables: tuple[Variable, ...] = ()
    resources: Resources = Resources()


class KvCache(Kube, frozen=True):
    """Switches of L1 and L2."""

    enable_l1_cache: bool | None = None
    enable_l2_cache: bool | None = None
    cache_config_file: str | None = None


class Routing(Kube, frozen=True):
    """The router of an endpoint."""

    enabled: bool = False
    routing_strategy: str | None = None


class Switch(Kube, frozen=True):
    """Something that can be on."""

    enabled: bool = False
    name: str | None = None


class Scaling(Kube, frozen=True):
    """Bounds between which replicas are scaled."""

    min_replica_count: int = 1
    max_replica_count: int = 5


class Model(Kube, frozen=True):
    """The model of a JumpStartModel."""

    model_id: str = ""


class Server(Kube, frozen=True):
    """Where a JumpStartModel runs."""

    instance_type: str | None = None


class EndpointSpec(Kube, frozen=True):
    """What an InferenceEndpointConfig or a JumpStartModel asks for."""

    model_name: str = ""
    replicas: int = 1
    instance_type: str | None = None
    instance_types: tuple[str, ...] = ()
    invocation_endpoint: str | None = None
    kv_cache_spec: KvCache | None = None
    intelligent_routing_spec: Routing | None = None
    inference_gateway: Switch | None = None
    auto_scaling_spec: Scaling | None = None
    worker: Worker | None = None
    model: Model = Model()
    server: Server = Server()
    environment_variables: tuple[Variable, ...] = ()


class EndpointStatus(Kube, frozen=True):
    """How far the operator is."""

    state: str | None = None
    observed_generation: int = 0


class Endpoint(Kube, frozen=True):
    """An InferenceEndpointConfig or a JumpStartModel."""

    metadata: Metadata
    spec: EndpointSpec = EndpointSpec()
    status: EndpointStatus = EndpointStatus()


class ModelScheduler(Kube, frozen=True):
    """How a gateway chooses replicas of one model."""

    name: str = ""
    model_name: str = ""
    weights: dict[str, float] = {}


class GatewaySpec(Kube, frozen=True):
    """What a gateway serves."""

    schedulers: tuple[ModelScheduler, ...] = ()


class Gateway(Kube, frozen=True):
    """An InferenceGatewayConfig."""

    metadata: Metadata
    spec: GatewaySpec = GatewaySpec()
