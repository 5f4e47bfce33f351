"""The page on boards lists every board, and names only what is on one."""

from __future__ import annotations

import re

import pytest

from dashboards.boards import BOARDS
from dashboards.lint.boards import read_board, titles

NUMBERS = {9: "Nine", 10: "Ten", 11: "Eleven", 12: "Twelve"}


@pytest.fixture
def page(repository) -> str:
    return (repository / "docs/boards.md").read_text("utf-8")


def test_every_board_has_a_line_and_every_line_a_board(page):
    """In the order of the table of boards."""
    listed = re.findall(r"^\| (Tierscope / [^|]+?) \|", page, flags=re.MULTILINE)

    assert listed == [read_board(render()).title for render in BOARDS.values()]
    assert f"{NUMBERS[len(BOARDS)]} boards" in page


def test_a_board_is_told_in_two_or_three_sentences(page):
    """Long enough to read it by, short enough to be read."""
    for told in re.findall(r"^\| Tierscope / [^|]+ \| ([^|]+) \|$", page, flags=re.MULTILINE):
        assert 2 <= len(re.findall(r"[.?!](?: |$)", told)) <= 4, told


def test_what_stands_in_italics_is_on_a_board(page):
    """A panel that is renamed takes its mention with it."""
    named = {name for name in re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", page) if "→" not in name}

    assert len(named) > 10
    assert named - titles() == set()
