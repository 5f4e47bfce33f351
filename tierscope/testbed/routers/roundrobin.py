"""Each replica in turn."""

from __future__ import annotations

from tierscope.testbed.workload.request import Request


class RoundRobin:
    """One counter for all requests; the replicas take turns in the order of their names."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._count = 0

    def route(self, request: Request) -> int:  # noqa: ARG002
        """The next replica, whatever is asked."""
        replica = self._count % self._replicas
        self._count += 1
        return replica
