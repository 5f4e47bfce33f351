"""Kubernetes quantities ("48Gi", "500m", "1e9") as plain numbers."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?\s*")
_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(text: str | float | None) -> float | None:
    """A quantity as a number; None for none, for what is no quantity, and for more than a number can be.

    >>> quantity("48Gi"), quantity("500m"), quantity("much"), quantity("1e999")
    (51539607552.0, 0.5, None, None)
    """
    try:
        number = None if text is None else _number(text)
    except (OverflowError, ValueError):  # more than a float holds; thousands of digits
        return None
    return number if number is not None and math.isfinite(number) else None


def _number(text: str | float) -> float | None:
    if isinstance(text, int | float):
        return float(text)
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return float(number) * (10.0 ** int(exponent) if exponent else _SUFFIXES.get(suffix or "", 1.0))
