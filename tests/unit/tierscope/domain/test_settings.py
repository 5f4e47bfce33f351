"""Settings carry their documentation and their units."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest

from tierscope.domain import settings as module

TYPES = [
    value for value in vars(module).values() if is_dataclass(value) and value.__module__ == module.__name__
]
UNITS = ("_seconds", "_per_second", "_bytes", "_rows", "_port", "_ratio", "_tokens", "_blocks", "_requests")
PLAIN_NUMBERS = {"tenant_series", "rank", "workers"}

each_type = pytest.mark.parametrize("settings", TYPES, ids=lambda settings: settings.__name__)


@each_type
def test_every_setting_has_a_line_of_documentation(settings):
    """`documented()` holds a sentence for each field."""
    for field in fields(settings):
        assert field.metadata.get("doc", "").endswith("."), f"{settings.__name__}.{field.name}"


@each_type
def test_a_number_carries_its_unit_in_its_name(settings):
    """Nobody has to guess whether a pause is in seconds or milliseconds."""
    for field in fields(settings):
        if field.type in {"int", "float", "int | None", "float | None"}:
            assert field.name.endswith(UNITS) or field.name in PLAIN_NUMBERS, field.name
