"""Routes of advice: recommendations now and before, their curves and findings, and what-if."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Annotated

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from api.answers import (
    Curves,
    EndpointFinding,
    Findings,
    RecommendationHistory,
    Recommendations,
    RecommendationSummary,
    documented,
)
from api.conditional import IfNoneMatch, conditional, conditional_of
from api.parameters import HISTORY_SECONDS, Clock, During, Name, Namespace, Paged
from api.problems import NotFound
from api.turns import OneAtATime, Refreshed
from tierscope.advice.document import Finding, Recommendation
from tierscope.advice.what_if import Abandoned, WhatIf, what_if
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.severity import Severity
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.storage.reader import Reader

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""How often it is looked whether somebody still waits for a what-if."""
STALE_RATIO = 10.0
"""So many times as old as a polled document may be, it is given while it is asked for anew."""
MOST_WINDOW_SECONDS = 24 * 3600.0
MOST_BYTES = 1e18
MOST_QUOTED = 80
"""Characters of an unknown value that the log is given."""


@dataclass(frozen=True, config=documented)
class Sizes:
    """Sizes to try, each of one holder: an engine's L0, a replica's L1, the whole pool; 0: no such tier."""

    l0_bytes: Annotated[float | None, Field(strict=True, gt=0, le=MOST_BYTES, allow_inf_nan=False)] = None
    """As it is now if left out."""
    l1_bytes: Annotated[float | None, Field(strict=True, ge=0, le=MOST_BYTES, allow_inf_nan=False)] = None
    """As it is now if left out."""
    l2_bytes: Annotated[float | None, Field(strict=True, ge=0, le=MOST_BYTES, allow_inf_nan=False)] = None
    """As it is now if left out."""

    def by_tier(self) -> dict[Tier, float]:
        """The sizes that are given."""
        given = {Tier.L0: self.l0_bytes, Tier.L1: self.l1_bytes, Tier.L2: self.l2_bytes}
        return {tier: size for tier, size in given.items() if size is not None}


def serve_advice(app: FastAPI, reader: Reader, clock: Clock, keep_seconds: float = 0.0) -> None:
    """Add every route of advice; a polled document may be `keep_seconds` old."""
    _serve_recommendations(app, reader, keep_seconds)
    _serve_history(app, reader, clock)
    _serve_parts(app, reader)
    _serve_what_if(app, reader, clock)


def _serve_recommendations(app: FastAPI, reader: Reader, keep_seconds: float) -> None:
    polled: Refreshed[bytes | None] = Refreshed(keep_seconds, STALE_RATIO * keep_seconds)

    @app.get("/v1/recommendations", tags=["advice"], response_model=Recommendations)
    def recommendations(part: Paged, if_none_match: IfNoneMatch = None) -> Response:
        """List the newest recommendation of every endpoint, in short."""
        names, following = part.of(reader.endpoints())
        found = ((name, reader.latest_recommendation(*name)) for name in names)
        listed = tuple(_summary(*name, body) for name, body in found if body is not None)
        return conditional_of(Recommendations(listed, following), if_none_match)

    @app.get("/v1/recommendations/{namespace}/{name}", tags=["advice"], response_model=Recommendation)
    async def recommendation(namespace: Namespace, name: Name, if_none_match: IfNoneMatch = None) -> Response:
        """The endpoint's newest recommendation: status, evidence, changes and how to apply them.

        Send its ETag back in If-None-Match: 304 says that there is nothing new.
        It may be a second old, and ten while the collector is busy.
        """
        found = await polled.get((namespace, name), lambda: reader.latest_recommendation(namespace, name))
        return conditional(_there(found, namespace, name), if_none_match)


def _serve_history(app: FastAPI, reader: Reader, clock: Clock) -> None:
    @app.get(
        "/v1/recommendations/{namespace}/{name}/history",
        tags=["advice"],
        response_model=RecommendationHistory,
    )
    def history(
        namespace: Namespace, name: Name, during: During, part: Paged, if_none_match: IfNoneMatch = None
    ) -> Response:
        """What was advised before, newest first: the last of each status in each hour."""
        span = during.span(clock, HISTORY_SECONDS)
        page, following = part.of(reader.recommendation_history(namespace, name, span))
        listed = tuple(_summary(namespace, name, body) for body in page)
        return conditional_of(RecommendationHistory(listed, following), if_none_match)


def _serve_parts(app: FastAPI, reader: Reader) -> None:
    known = _Known()

    @app.get("/v1/curves/{namespace}/{name}", tags=["advice"], response_model=Curves)
    def curves(namespace: Namespace, name: Name, if_none_match: IfNoneMatch = None) -> Response:
        """Hit ratio for each size of each tier, with today's point and the advised one."""
        document = json.loads(_latest(reader, namespace, name))
        parts = {"generated_at": document.get("generated_at"), "curves": document.get("curves", {})}
        try:
            found = TypeAdapter(Curves).validate_python(parts)
        except ValidationError as error:
            raise StoreUnusable(
                f"the curves of {namespace}/{name} are of another release: {_unknown(error)}",
                where=f"/v1/curves/{namespace}/{name}",
                fix="ask the release that wrote them, or again when all servers are of one release",
            ) from error
        return conditional_of(found, if_none_match)

    @app.get("/v1/findings", tags=["advice"], response_model=Findings)
    def findings(
        part: Paged,
        severity: Annotated[Severity | None, Query(description="Only those of this severity.")] = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """What a person should know about any endpoint, gravest first, with what to do."""
        found: list[EndpointFinding] = []
        left_out = 0
        for namespace, name in reader.endpoints():
            body = reader.latest_recommendation(namespace, name)
            if body is None:
                continue
            findings, unknown = known.of(namespace, name, body)
            left_out += unknown
            found += (
                EndpointFinding(namespace, name, one)
                for one in findings
                if severity is None or one.severity is severity
            )
        order = list(Severity)[::-1]
        found.sort(key=lambda one: order.index(one.finding.severity))
        page, following = part.of(found)
        return conditional_of(Findings(page, following, left_out), if_none_match)


class _Known:
    """Findings of stored documents, without those of another release: servers of two may share a lake."""

    def __init__(self) -> None:
        self._finding = TypeAdapter(Finding)
        self._said: dict[tuple[str, str], int] = {}

    def of(self, namespace: str, name: str, body: bytes) -> tuple[list[Finding], int]:
        """Those that are known, and how many are not; the log is told once of a document."""
        found: list[Finding] = []
        unknown: list[str] = []
        for one in json.loads(body).get("findings", ()):
            try:
                found.append(self._finding.validate_python(one))
            except ValidationError as error:
                unknown.append(_unknown(error))
        document = hash(body)
        if unknown and self._said.get((namespace, name)) != document:
            self._said[namespace, name] = document
            log.warning(
                "findings of %s/%s are left out (%d), as another release wrote them: %s",
                namespace,
                name,
                len(unknown),
                "; ".join(sorted(set(unknown))),
            )
        return found, len(unknown)


def _unknown(error: ValidationError) -> str:
    """The first part that is not known, by place and value."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "it"
    if first["type"] != "enum":
        return f"{place}: {first['msg']}"
    return f"{place} {str(first['input'])[:MOST_QUOTED]!r} is not known"


def _serve_what_if(app: FastAPI, reader: Reader, clock: Clock) -> None:
    turns = OneAtATime()

    @app.post("/v1/what-if/{namespace}/{name}", tags=["advice"], response_model=WhatIf)
    async def ask_what_if(
        request: Request,
        sizes: Sizes,
        namespace: Annotated[str, Path(description="Namespace of the endpoint.")],
        name: Name,
        window_seconds: Annotated[
            float, Query(description="Span of history to replay.", gt=0, le=MOST_WINDOW_SECONDS)
        ] = MOST_WINDOW_SECONDS,
    ) -> WhatIf:
        """Replay the endpoint's recorded requests at other sizes. One is computed at a time.

        It stops once nobody waits for it any more.
        """
        abandoned = threading.Event()

        def answer() -> WhatIf:
            if abandoned.is_set():
                raise Abandoned
            now = clock()
            deployment = _in_force(reader, namespace, name, now)
            evidence = reader.evidence(namespace, name, TimeSpan(now - window_seconds, now))
            return what_if(evidence, deployment, sizes.by_tier(), abandoned.is_set)

        task = asyncio.ensure_future(turns.run(answer))
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
            if await request.is_disconnected():
                abandoned.set()
        return await task


def _in_force(reader: Reader, namespace: str, name: str, now_unix_seconds: float) -> Deployment:
    span = TimeSpan(now_unix_seconds - 1.0, now_unix_seconds + 1.0)
    known = reader.deployments(namespace, name, span)
    if not known:
        raise NotFound(
            f"no configuration of {namespace}/{name} is known",
            where=f"/v1/what-if/{namespace}/{name}",
            fix="add it to collector.deployments, or set collector.kubernetes",
        )
    return known[-1].deployment


def _latest(reader: Reader, namespace: str, name: str) -> bytes:
    return _there(reader.latest_recommendation(namespace, name), namespace, name)


def _there(body: bytes | None, namespace: str, name: str) -> bytes:
    if body is None:
        raise NotFound(
            f"there is no recommendation for {namespace}/{name} yet",
            where=f"/v1/recommendations/{namespace}/{name}",
            fix="add it to collector.deployments and wait for collector.advise_seconds, or see "
            "/v1/recommendations for those that have one",
        )
    return body


def _summary(namespace: str, endpoint: str, body: bytes) -> RecommendationSummary:
    document = json.loads(body)
    return RecommendationSummary(
        namespace=namespace,
        endpoint=endpoint,
        status=document["status"],
        generated_at=document["generated_at"],
        changes=tuple(change["id"] for change in document["changes"]),
        href=f"/v1/recommendations/{namespace}/{endpoint}",
    )
