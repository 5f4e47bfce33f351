"""Label sets that several tables of metrics share."""

from __future__ import annotations

ENGINE = ("namespace", "endpoint", "model", "replica", "rank")
"""What names an engine and the model it serves."""
