"""Every session stays with one replica."""

from __future__ import annotations

import bisect
import hashlib

from tierscope.testbed.workload.request import Request

POINTS_PER_REPLICA = 160


class SessionHash:
    """A consistent-hash ring as the router's: 160 MD5 points a replica, blind to load.

    A session belongs to the first point strictly after its own, wrapping at the end.
    """

    def __init__(self, replicas: int) -> None:
        points = sorted(
            (_point(f"replica-{replica}-{number}"), replica)
            for replica in range(replicas)
            for number in range(POINTS_PER_REPLICA)
        )
        self._points = [point for point, _ in points]
        self._owners = [replica for _, replica in points]

    def route(self, request: Request) -> int:
        """The owner of the request's session."""
        return self._owners[bisect.bisect_right(self._points, _point(request.session)) % len(self._owners)]


def _point(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest(), "big")
