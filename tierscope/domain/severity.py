"""How urgent something is that a person should know."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How urgent a finding is."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
