"""Metrics by tenant: off unless an exporter is told how many may have series of their own."""

from __future__ import annotations

from tierscope.registry.types import Kind, Metric, MetricGroup

TENANT_TOKENS = Metric(
    name="tierscope_tenant_tokens_total",
    kind=Kind.COUNTER,
    labels=("namespace", "endpoint", "tenant", "tier"),
    help="Prompt tokens of requests that reached their first token, by tenant and by where their KV values "
    "came from. tenant: the keyed hash of the cache salt; none: without a salt; other: all tenants beyond "
    "`tenant_series`. Absent unless that is set.",
    answers="Which tenant's tokens do the tiers serve, and whose are computed?",
)
FORMER_TENANT_TOKENS = Metric(
    name="tierscope_former_tenant_tokens_total",
    kind=Kind.COUNTER,
    labels=("namespace", "endpoint", "tier"),
    help="What tenants had counted under their own name before a heavier one took their place: with it "
    "tierscope_tenant_tokens_total adds up to all tokens. It jumps: take no rate of it.",
    answers="How much was of tenants that no longer have series of their own?",
)
TENANTS = MetricGroup(
    title="Tenants",
    published_by="`tierscope export`, where `tenant_series` is set",
    metrics=(TENANT_TOKENS, FORMER_TENANT_TOKENS),
)
