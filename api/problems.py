"""Every error of the API in one JSON shape: {what, where, fix}, as application/problem+json."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic.dataclasses import dataclass
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

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


def _status_of(error: TierscopeError) -> int:
    match error:
        case NotFound():
            return HTTPStatus.NOT_FOUND
        case StoreUnusable():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.BAD_REQUEST
