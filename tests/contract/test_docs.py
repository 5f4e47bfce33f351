"""What is promised in words can be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contract.test_house import tracked_files

LINK = re.compile(r"\]\(([^)#\s]+)")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page", [path for path in tracked_files(ROOT) if path.suffix == ".md"], ids=lambda path: path.name
)
def test_every_relative_link_leads_somewhere(page):
    """A link to a file or folder of the checkout names one that is there."""
    links = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]

    assert [target for target in links if not (page.parent / target).exists()] == []


def test_decisions_are_numbered_without_gaps():
    """So that the next one knows its number."""
    names = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))

    assert [name[:4] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]
