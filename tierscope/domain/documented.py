"""How a settings type carries the documentation of its fields."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def documented(doc: str, **kwargs: Any) -> Any:
    """Declare a dataclass field with the line that documents it."""
    return field(metadata={"doc": doc}, **kwargs)
