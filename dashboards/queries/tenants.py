"""Tokens by tenant: of those that exporters give series of their own, and of them the busiest."""

from __future__ import annotations

from dashboards.promql import AnyOf, Matcher, ratio
from dashboards.rules.recording import TENANT_RATE, recorded
from dashboards.variables import OWNER

TENANT = {**OWNER, "tenant": AnyOf("$tenant")}


def tokens_of_tenants(number: int) -> str:
    """Prompt tokens a second of the tenants that have most."""
    return f"topk({number}, {_rate()})"


def cached_share_of_tenants(number: int) -> str:
    """Share of the prompt tokens that caches served, of the tenants that have it least."""
    return f"bottomk({number}, {ratio(_rate(tier=AnyOf('l0|l1|l2|external')), _rate())})"


def _rate(**labels: Matcher) -> str:
    return f"sum by (tenant) ({recorded(TENANT_RATE, TENANT, **labels)})"
