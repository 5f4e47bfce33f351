"""What commands share that ask a store or an API about one endpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tierscope.domain.errors import BadInput, SourceUnreadable

if TYPE_CHECKING:
    from pydantic import JsonValue

Document = dict[str, "JsonValue"]

TOKEN_FILE_VARIABLE = "TIERSCOPE_TOKEN_FILE"  # noqa: S105  a name
"""Names the file with the token that an API asks for."""
TIMEOUT_SECONDS = 60.0
"""Longest wait for an API."""


def get(address: str) -> Document:
    """Ask an API for a JSON document; its errors are told in its own words."""
    return parsed(fetch(address), where=address)


def fetch(address: str) -> bytes:
    """Ask an API; its errors are told in its own words."""
    import httpx

    try:
        response = httpx.get(address, headers=_headers(), timeout=TIMEOUT_SECONDS, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceUnreadable(
            f"the API does not answer: {error}", where=address, fix="check --url and that it runs"
        ) from error
    if response.is_success:
        return response.content
    body = parsed(response.content, where=address)
    said = {name: str(body.get(name, "not said")) for name in ("what", "where", "fix")}
    raise SourceUnreadable(said["what"], where=f"{address}, {said['where']}", fix=said["fix"])


def _headers() -> dict[str, str]:
    """The caller's token, read anew each time: tokens of Kubernetes last an hour. Raises `BadInput`."""
    path = os.environ.get(TOKEN_FILE_VARIABLE)
    if not path:
        return {}
    try:
        return {"Authorization": f"Bearer {Path(path).read_text('utf-8').strip()}"}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"the token cannot be read: {error}", where=path, fix=f"check {TOKEN_FILE_VARIABLE}"
        ) from error


def parsed(body: bytes, where: str) -> Document:
    """A JSON document of ours."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise BadInput("this is not JSON", where=where, fix="check that it is Tierscope's") from error
    if not isinstance(document, dict):
        raise BadInput("this is not a JSON document", where=where, fix="check that it is Tierscope's")
    return document


def one_of(known: list[str], wanted: str | None, where: str) -> tuple[str, str]:
    """Namespace and name of the endpoint that is wanted, or of the only one there is."""
    if wanted is None and len(known) == 1:
        wanted = known[0]
    if wanted is not None and wanted in known:
        namespace, _, name = wanted.partition("/")
        return namespace, name
    there = f"it has {', '.join(known)}" if known else "it has none"
    what = f"there is no endpoint {wanted}" if wanted else "which endpoint is not said"
    raise BadInput(f"{what}; {there}", where=where, fix="name one with --endpoint NS/NAME")
