"""A finding that no test plants is a claim."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import chain
from pathlib import Path

import pytest

from collectors.names import NameSuspect
from exporters.curvine.suspicion import PoolSuspect
from exporters.lmcache.attachment import AttachmentSuspect
from exporters.lmcache.in_process_suspicion import LmcacheSuspect
from exporters.lmcache.suspicion import ServerSuspect
from exporters.managed_tier import ManagedSuspect
from exporters.mount.suspicion import DirectorySuspect
from exporters.vllm.suspicion import Suspect
from tierscope.advice.document import FindingKind

TESTS = Path(__file__).parents[1]
KINDS: tuple[type[StrEnum], ...] = (
    AttachmentSuspect,
    DirectorySuspect,
    FindingKind,
    LmcacheSuspect,
    ManagedSuspect,
    NameSuspect,
    PoolSuspect,
    ServerSuspect,
    Suspect,
)


@pytest.fixture(scope="module")
def tests() -> str:
    """Every test that can run without a real engine."""
    rooms = (TESTS / "unit", TESTS / "integration", TESTS / "scenarios")
    files = chain.from_iterable(room.rglob("*.py") for room in rooms)
    return "\n".join(path.read_text("utf-8") for path in files)


@pytest.mark.parametrize(
    "kind", [*chain.from_iterable(KINDS)], ids=lambda kind: f"{type(kind).__name__}-{kind}"
)
def test_every_kind_of_finding_is_planted(kind, tests):
    """By its member or by its published name."""
    member = rf"\b{type(kind).__name__}\.{kind.name}\b"

    assert re.search(rf"{member}|[\"']{kind.value}[\"']", tests), f"no test plants {kind.value}"


def test_every_documented_kind_is_among_them(repository):
    """What the reference lists and what is looked for above are the same."""
    page = (repository / "docs/reference/findings.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))

    assert listed == {kind.value for kind in chain.from_iterable(KINDS)} | {"unknown_metric_generation"}
