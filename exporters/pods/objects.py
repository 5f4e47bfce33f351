"""What of a pod tells which engine or cache is in it; all else the API says is passed over."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tierscope.domain.errors import SourceUnreadable


class _Kube(Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all: unknown fields are passed over, an absent or null list is empty."""


class Owner(_Kube, frozen=True):
    """What made the pod."""

    kind: str = ""
    name: str = ""
    controller: bool = False


class Metadata(_Kube, frozen=True):
    """Names and marks."""

    uid: str
    name: str
    namespace: str
    labels: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None


class Variable(_Kube, frozen=True):
    """An environment variable; no value: it comes from somewhere else."""

    name: str
    value: str | None = None


class Port(_Kube, frozen=True):
    """A port that a container names."""

    container_port: int


class Requirements(_Kube, frozen=True):
    """What a container may have."""

    limits: dict[str, str | int | float] | None = None


class Container(_Kube, frozen=True):
    """One container."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    ports: tuple[Port, ...] | None = None
    resources: Requirements | None = None


class Spec(_Kube, frozen=True):
    """What runs."""

    containers: tuple[Container, ...] = ()


class Status(_Kube, frozen=True):
    """How far it is, and where it can be reached."""

    phase: str = "Unknown"
    pod_ip: str | None = msgspec.field(name="podIP", default=None)


class NodePod(_Kube, frozen=True):
    """One pod of the node."""

    metadata: Metadata
    spec: Spec = Spec()
    status: Status = Status()


class _List(_Kube, frozen=True):
    items: tuple[NodePod, ...] | None = None


def read_pods(body: bytes, *, where: str) -> Sequence[NodePod]:
    """Read a list as the API gives it; raises `SourceUnreadable` naming the field that is not right."""
    try:
        return msgspec.json.decode(body, type=_List).items or ()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceUnreadable(
            f"the list of pods cannot be read: {error}", where=where, fix="check what answers there"
        ) from error
