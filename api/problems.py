"""Every error of the API in one JSON shape: {what, where, fix}, as application/problem+json."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic.dataclasses import dataclass
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from tierscope.advice.what_if import Abandoned
from tierscope.domain.errors import StoreUnusable, TierscopeError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Problem:
    """What went wrong, where it was found, and the next thing to try."""

    what: str
    where: str
    fix: str


class NotFound(TierscopeError):
    """Something that was asked for by name is not there."""


def problem(error: TierscopeError, status: int) -> JSONResponse:
    """An error as a response."""
    body = {"what": error.what, "where": error.where, "fix": error.fix}
    return JSONResponse(body, status, media_type=MEDIA_TYPE)


def answer_problems(app: FastAPI) -> None:
    """Make an app answer every error in our shape, its framework's own among them."""

    @app.exception_handler(TierscopeError)
    def ours(_: Request, error: TierscopeError) -> Response:
        return problem(error, _status_of(error))

    @app.exception_handler(Abandoned)
    def abandoned(request: Request, _: Abandoned) -> Response:
        # Nobody reads this: the status is for logs and proxies.
        gone = TierscopeError("the client left", where=request.url.path, fix="ask again")
        return problem(gone, HTTPStatus.REQUEST_TIMEOUT)

    @app.exception_handler(RequestValidationError)
    def arguments(request: Request, error: RequestValidationError) -> Response:
        found = error.errors()
        names = ", ".join(str(part["loc"][-1]) for part in found)
        what = "; ".join(f"{part['loc'][-1]}: {part['msg']}" for part in found)
        wrong = TierscopeError(
            what, where=request.url.path, fix=f"correct {names}; /docs lists the arguments"
        )
        return problem(wrong, HTTPStatus.UNPROCESSABLE_ENTITY)

    @app.exception_handler(HTTPException)
    def framework(request: Request, error: HTTPException) -> Response:
        where = f"{request.method} {request.url.path}"
        response = problem(
            TierscopeError(str(error.detail), where=where, fix="see /docs for what there is"),
            error.status_code,
        )
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    def defect(request: Request, _: Exception) -> Response:
        # The server logs the exception itself, with its traceback.
        wrong = TierscopeError(
            "the API failed on this request; that is a defect of it",
            where=f"{request.method} {request.url.path}",
            fix="look at the API's log and report it",
        )
        return problem(wrong, HTTPStatus.INTERNAL_SERVER_ERROR)


def describe_problems(app: FastAPI) -> None:
    """Have the app's OpenAPI document say of every error what is sent: our shape, and its media type."""
    describe = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = describe()
            for path in document["paths"].values():
                for route in path.values():
                    _describe_errors(route["responses"])
            for unused in ("HTTPValidationError", "ValidationError"):
                document["components"]["schemas"].pop(unused, None)
        return app.openapi_schema or {}

    app.openapi = described  # type: ignore[method-assign]


def _describe_errors(responses: dict[str, Any]) -> None:
    """4XX and 5XX are ours; the framework's own 422 is one of them."""
    responses.pop("422", None)
    for status, response in responses.items():
        if status in {"4XX", "5XX"}:
            response["content"] = {MEDIA_TYPE: response["content"].pop("application/json")}


def _status_of(error: TierscopeError) -> int:
    match error:
        case NotFound():
            return HTTPStatus.NOT_FOUND
        case StoreUnusable():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.BAD_REQUEST
