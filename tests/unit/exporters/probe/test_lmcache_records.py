"""The wire of an LMCache server, as the README states it."""

from __future__ import annotations

import re

import pytest

from tierscope_probe.lmcache_records import FIELDS, RECORDS


@pytest.fixture(scope="module")
def wire(repository) -> str:
    """The README's part about this wire."""
    readme = (repository / "exporters" / "probe" / "README.md").read_text("utf-8")
    return readme.split("## Records of an LMCache server")[1].split("\n## ")[0]


def rows(text: str, header: str) -> list[list[str]]:
    """Cells of the rows of the table that has this header."""
    table = text.split(header)[1].split("\n\n", maxsplit=1)[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.strip().splitlines()[1:]]


def test_every_record_and_its_fields_are_documented(wire):
    """The table of records lists the kinds and fields there are, in their order."""
    documented = {
        kind.strip("`"): re.findall(r"`(\w+)`", fields)
        for kind, _, fields in rows(wire, "| `t` | when | fields |")
    }

    assert documented == {kind: list(fields) for kind, fields in RECORDS.items()}


def test_every_field_is_documented_with_its_unit(wire):
    """The table of fields lists each once, with the unit of its values."""
    documented: dict[str, str] = {}
    for names, unit, _ in rows(wire, "| field | unit | meaning |"):
        for name in re.findall(r"`(\w+)`", names):
            assert name not in documented
            documented[name] = unit

    assert documented == FIELDS


def test_every_field_is_in_a_record():
    """No unit is kept for a field that is gone."""
    assert set().union(*RECORDS.values()) == set(FIELDS)
