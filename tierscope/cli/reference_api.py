"""The reference pages of what the API answers and of what findings say, rendered from the code."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from tierscope.cli.reference import MADE_FROM, page, table
from tierscope.cli.settings_fields import texts_below
from tierscope.registry.metrics import FINDING


def api_page() -> str:
    """`docs/reference/api.md`: every route, from the application's own OpenAPI document."""
    return page(
        MADE_FROM.format("`api/app.py`"),
        "# API",
        "Where an API runs, `/docs` shows the same with every field, and `/openapi.json` is the document. "
        "[recommendation.schema.json](recommendation.schema.json) describes a recommendation. Every error "
        "is `application/problem+json` with `what`, `where` and `fix`.",
        table(("route", "parameters", "what it answers"), _routes()),
    )


def findings_page() -> str:
    """`docs/reference/findings.md`: every kind of finding, by who tells it."""
    from collectors.names import NameSuspect
    from exporters.curvine.suspicion import PoolSuspect
    from exporters.lmcache.attachment import AttachmentSuspect
    from exporters.lmcache.in_process_suspicion import LmcacheSuspect
    from exporters.lmcache.suspicion import ServerSuspect
    from exporters.managed_tier import ManagedSuspect
    from exporters.mount.suspicion import DirectorySuspect
    from exporters.vllm.parse import UNKNOWN_GENERATION
    from exporters.vllm.suspicion import Suspect
    from tierscope.advice.document import FindingKind

    unknown = "The page has names of a release we do not know; what could be read of it was used."
    return page(
        MADE_FROM.format("`tierscope/advice/document.py` and each `…suspicion.py` of `exporters`"),
        "# Findings",
        "Each finding comes with its evidence and what to do.",
        "## In a recommendation",
        table(("kind", "what it says"), _kinds(FindingKind)),
        f"Those below are on `/metrics` as `{FINDING.name}` with the source and severity, and once in the "
        "log with the evidence and what to do.",
        "## Of an engine's own metrics",
        "The suspect counter is not used; the message names what is used instead.",
        table(("kind", "what it says"), [*_kinds(Suspect), (f"`{UNKNOWN_GENERATION}`", unknown)]),
        "## Of LMCache inside an engine",
        table(("kind", "what it says"), _kinds(LmcacheSuspect)),
        "## Of an LMCache server",
        "From its probe's records; the first one where the probe is not in it.",
        table(("kind", "what it says"), _kinds(ServerSuspect)),
        "## Between nodes",
        "On the collector's `/metrics`, from records that a cache server's lookup was joined to.",
        table(("kind", "what it says"), _kinds(NameSuspect)),
        "## Of the pool",
        "From the pages of Curvine's master, workers and FUSE clients, which never met a live cluster yet.",
        table(("kind", "what it says"), _kinds(PoolSuspect)),
        "## Of the pool's directory",
        table(("kind", "what it says"), _kinds(DirectorySuspect)),
        "## Between caches, the pool and the node's memory",
        table(("kind", "what it says"), [*_kinds(AttachmentSuspect), *_kinds(ManagedSuspect)]),
    )


def _routes() -> Iterator[tuple[str, str, str]]:
    from api.app import create_app
    from tierscope.storage.serving import RemoteReader

    document = create_app(RemoteReader("nowhere.sock"), lambda: 0.0).openapi()
    for path, methods in sorted(document["paths"].items()):
        for method, route in methods.items():
            parameters = ", ".join(f"`{one['name']}`" for one in route.get("parameters", ())) or "none"
            yield f"`{method.upper()} {path}`", parameters, route.get("description", "").strip()


def _kinds(kinds: type[StrEnum]) -> Iterator[tuple[str, str]]:
    texts = texts_below(kinds)
    for kind in kinds:
        yield f"`{kind.value}`", texts[kind.name]
