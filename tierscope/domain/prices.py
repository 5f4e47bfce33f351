"""What an endpoint's hardware costs and can do, as its owner says: advice makes none of it up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstanceFigures:
    """An instance type an endpoint runs on or might run on: its price, and for a comparison its speeds."""

    name: str
    """Its name, e.g. ml.g6e.4xlarge."""
    price_per_hour: float
    """What one costs an hour."""
    replicas: int = 1
    """Replicas of this endpoint that one holds."""
    gpu_memory_bytes: float | None = None
    """Memory of one of its GPUs; none: what another --gpu-memory-utilization gives cannot be told."""
    l0_bytes: float | None = None
    """Room for KV values on the GPUs of one replica, as the engine prints it at start."""
    host_limit_bytes: float | None = None
    """The most that L1 of one replica may have on it."""
    prefill_tokens_per_second: float | None = None
    """Prompt tokens one replica computes in a second when nothing is cached."""
    l1_tokens_per_second: float | None = None
    """Tokens one replica loads from L1 in a second."""
    l2_tokens_per_second: float | None = None
    """Tokens one replica loads from L2 in a second."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What sizes cost. Without a price of its own, memory or disk is taken as paid with its instance."""

    currency: str = "USD"
    """What prices are in."""
    host_gib_per_hour: float | None = None
    """An hour of a GiB of host memory; none: it comes with the instance and costs nothing more."""
    pool_gib_per_hour: float | None = None
    """An hour of a GiB of the L2 pool; none: its disks come with the instances."""
    uncertainty_ratio: float = 0.0
    """How far a price may be off either way, as a share: the ends of a cost's interval."""
    instances: tuple[InstanceFigures, ...] = ()
    """Instance types with their prices; one that is not here has none."""

    def instance(self, name: str) -> InstanceFigures | None:
        """The figures of an instance type, None where they are not given."""
        return next((one for one in self.instances if one.name == name), None)
