"""Who may ask what: callers by their token, and the scopes they have."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.watched_files import WatchedFiles


class Scope(StrEnum):
    """What a caller may do."""

    READ = "read"
    """Read documents, sums and history."""
    WHAT_IF = "what_if"
    """Have a configuration computed."""
    METRICS = "metrics"
    """Read this process's `/metrics`."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who showed a token, and what it allows."""

    name: str
    scopes: frozenset[Scope]


class Access(Protocol):
    """Decides who a token belongs to. Thread-safe; raises `TierscopeError` if it cannot decide now."""

    def caller(self, token: str) -> Caller | None:
        """Return whose token it is; None for nobody's."""
        ...


def scope_of(method: str, path: str) -> Scope | None:
    """The scope a request needs; None for what everybody may ask.

    >>> scope_of("GET", "/health"), scope_of("GET", "/metrics").value
    (None, 'metrics')
    """
    if path in {"/health", "/ready"}:
        return None
    if path == "/metrics":
        return Scope.METRICS
    return Scope.READ if method in {"GET", "HEAD"} else Scope.WHAT_IF


class TokenFile:
    """Callers in a file: a line each of a name, scopes joined by commas, and a token of 16 letters or more.

    The file is read again when it has changed; while its new text cannot be used, the old one counts.
    Raises `BadSettings` naming every line that is not right when it is first read.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._callers = WatchedFiles([self._path], self._load)

    def caller(self, token: str) -> Caller | None:
        """See `Access`. Tokens are compared by their hashes, so that time tells nothing of them."""
        return self._callers.value.get(_digest(token))

    def _load(self) -> Mapping[bytes, Caller]:
        try:
            lines = self._path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings(
                [_wrong(f"the file of tokens cannot be read: {error}", str(self._path))]
            ) from error
        problems: list[TierscopeError] = []
        callers = dict(self._callers_in(lines, problems))
        if not callers and not problems:
            problems.append(_wrong("the file of tokens names nobody", str(self._path)))
        if problems:
            raise BadSettings(problems)
        return callers

    def _callers_in(
        self, lines: Iterable[str], problems: list[TierscopeError]
    ) -> Iterable[tuple[bytes, Caller]]:
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            where = f"{self._path}, line {number}"
            known = {scope.value for scope in Scope}
            if len(words) != 3 or len(words[2]) < 16:
                problems.append(_wrong("this is no name, scopes and token of at least 16 letters", where))
            elif not known.issuperset(words[1].split(",")):
                # Not quoted: in a line in another order the token stands here.
                problems.append(_wrong("the second word names a scope that there is not", where))
            else:
                scopes = frozenset(Scope(name) for name in words[1].split(","))
                yield _digest(words[2]), Caller(words[0], scopes)


Review = Callable[[str, Mapping[str, object]], Mapping[str, object]]
"""Creates an object at a path of the Kubernetes API and returns it with its status filled in."""

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ASKED_FOR = {
    Scope.READ: ("get", "/v1"),
    Scope.WHAT_IF: ("post", "/v1/what-if"),
    Scope.METRICS: ("get", "/metrics"),
}
"""What a subject must be allowed, as verb and non-resource path, to have a scope."""


class KubernetesReviews:
    """Callers as Kubernetes knows them: a TokenReview says who, a SubjectAccessReview a scope what.

    An answer is used for `keep_seconds`, then asked for again.
    """

    def __init__(self, review: Review, monotonic: Callable[[], float], *, keep_seconds: float = 60.0) -> None:
        self._review = review
        self._monotonic = monotonic
        self._keep_seconds = keep_seconds
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[float, Caller | None]] = {}

    def caller(self, token: str) -> Caller | None:
        """See `Access`."""
        digest, now = _digest(token), self._monotonic()
        with self._lock:
            self._known = {key: kept for key, kept in self._known.items() if kept[0] > now}
            if digest in self._known:
                return self._known[digest][1]
        caller = self._ask(token)
        with self._lock:
            self._known[digest] = (now + self._keep_seconds, caller)
        return caller

    def _ask(self, token: str) -> Caller | None:
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = _mapping(self._review(TOKEN_REVIEWS, asked).get("status"))
        user = _mapping(status.get("user"))
        if status.get("authenticated") is not True:
            return None
        name = str(user.get("username", ""))
        return Caller(name, frozenset(scope for scope in Scope if self._may(user, name, scope)))

    def _may(self, user: Mapping[str, object], name: str, scope: Scope) -> bool:
        verb, path = ASKED_FOR[scope]
        asked = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": name,
                "groups": user.get("groups", []),
                "uid": user.get("uid", ""),
                "nonResourceAttributes": {"verb": verb, "path": path},
            },
        }
        return _mapping(self._review(ACCESS_REVIEWS, asked).get("status")).get("allowed") is True


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _wrong(what: str, where: str) -> TierscopeError:
    return TierscopeError(what, where=where, fix="write lines of 'name read,what_if,metrics token'")
