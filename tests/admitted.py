"""Admissions that look for what the cache below their engine had for them."""

from __future__ import annotations

from exporters.lookups import Wanted


def wanted(
    request_id: str = "r",
    number: int = 0,
    *,
    admitted: float = 1.0,
    ended: float = 2.0,
    prompt: int = 300,
    local: int = 0,
    external: int = 256,
) -> Wanted:
    """An admission of a prompt of which some tokens were in L0 and some came through the connector."""
    return Wanted(request_id, number, admitted, ended, prompt, local + external, external)
