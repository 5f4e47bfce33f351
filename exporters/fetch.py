"""HTTP GET with one deadline over the whole answer, and errors that say what to do."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping

import httpx

from tierscope.domain.errors import SourceUnreadable

MOST_BYTES = 64 * 1024 * 1024
"""Largest answer that is read; a metrics page has a few hundred kilobytes."""


class Fetcher:
    """Reads pages for one thread, over connections it keeps open.

    `timeout_seconds` bounds a whole answer, however slowly its bytes drip in. Environment proxies are
    not used: sources are on this node or in this cluster.
    """

    def __init__(
        self,
        timeout_seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._monotonic = monotonic
        self._client = httpx.Client(
            timeout=timeout_seconds, trust_env=False, follow_redirects=False, verify=verify
        )

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the body of the answer; raises `SourceUnreadable` for anything but a whole 200."""
        deadline = self._monotonic() + self._timeout_seconds
        try:
            with self._client.stream("GET", url, headers=headers) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise _unreadable(f"it answered {answer.status_code}", url)
                return self._body(answer, url, deadline)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
            raise _unreadable(reason or type(error).__name__, url) from error

    def _body(self, answer: httpx.Response, url: str, deadline: float) -> bytes:
        parts: list[bytes] = []
        size_bytes = 0
        for part in answer.iter_bytes():
            size_bytes += len(part)
            if size_bytes > MOST_BYTES:
                raise _unreadable(f"its answer is larger than {MOST_BYTES} bytes", url)
            if self._monotonic() > deadline:
                raise _unreadable("no whole answer in time", url)
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _unreadable(reason: str, url: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"a page cannot be read: {reason}",
        where=url,
        fix="check the address, and that what serves it is running; it is tried again",
    )
