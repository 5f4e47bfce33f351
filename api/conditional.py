"""Answers that say what they are by an ETag, and are not sent to those who have them."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Header, Response
from pydantic import TypeAdapter

IfNoneMatch = Annotated[str | None, Header(description="The ETag of the document you have.")]


def conditional(body: bytes, if_none_match: str | None) -> Response:
    """A JSON body with its ETag, or 304 without it where the client has it already."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def conditional_of(value: object, if_none_match: str | None) -> Response:
    """The same of one of our answer types."""
    return conditional(TypeAdapter(type(value)).dump_json(value, by_alias=True), if_none_match)


def _matches(if_none_match: str, etag: str) -> bool:
    """Whether one of the tags a client sent is the document's (weak comparison, RFC 9110)."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags
