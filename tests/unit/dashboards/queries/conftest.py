"""Expressions evaluated by promtool."""

from __future__ import annotations

import pytest

from tests.promtool_cases import PromtoolCases


@pytest.fixture
def promtool(system_binary, tmp_path) -> PromtoolCases:
    """Expressions evaluated by promtool."""
    return PromtoolCases(system_binary("promtool", package="prometheus"), tmp_path)
