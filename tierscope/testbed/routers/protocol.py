"""What a router answers."""

from __future__ import annotations

from typing import Protocol

from tierscope.testbed.workload.request import Request


class Router(Protocol):
    """Decides at arrival; sees the request and remembers what it decided before."""

    def route(self, request: Request) -> int:
        """Index of the replica that serves the request."""
        ...
