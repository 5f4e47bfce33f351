"""The pages of routes and findings hold every one of them."""

from __future__ import annotations

import re

from api.app import create_app
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
from tierscope.cli.reference_api import api_page, findings_page


def first_cells(page: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)


def test_every_route_has_a_line_that_says_what_it_answers():
    """The page's routes are the application's, and none is without words."""
    app = create_app(None, lambda: 0.0)
    paths = app.openapi()["paths"]
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}

    assert set(first_cells(api_page())) == served
    assert not re.search(r"\|\s*\|$", api_page(), re.MULTILINE)


def test_every_kind_of_finding_has_a_line_that_says_what_it_means():
    """Those of advice, of an engine's metrics, of LMCache in and beside one, of names and of the pool."""
    kinds = [
        *FindingKind,
        *Suspect,
        UNKNOWN_GENERATION,
        *LmcacheSuspect,
        *ServerSuspect,
        *NameSuspect,
        *PoolSuspect,
        *DirectorySuspect,
        *AttachmentSuspect,
        *ManagedSuspect,
    ]

    assert first_cells(findings_page()) == kinds
