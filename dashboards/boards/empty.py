"""What panels say in common: above all why there may be no data, by what one can do about it."""

from __future__ import annotations

from tierscope.domain.tiers import Tier

NO_REQUESTS = (
    "No request reached its first token here in this time, or the engines' hook is not read: see Sources"
)
NO_EVICTIONS = "Nothing here reports evictions from this tier: see Sources"
NO_FILL = "No source reports both the use and the size of this tier: see Sources"
NO_SOURCES = "No exporter is scraped: check Prometheus' targets"
NO_LOADS = "No request waited for a load from this tier in this time, or the engines' hook is not read"
NO_RECORDINGS = "No request in the last 5 minutes, or Prometheus does not load tierscope-rules.yaml"
FIVE_MINUTES = "Over 5 minutes, of every replica of the endpoints chosen, from recorded series."
NO_EVENTS = "No engine's KV events tell the blocks of this tier one by one: see Sources"
NO_CACHE_SERVER = "No cache server with the probe is read, or it moved nothing in this time"
NO_POOL = "No Curvine pool is read: see Sources"
NO_SCAN = "No mount of a pool is scanned: see Sources"
NO_COLLECTOR = "No collector is scraped, or it has not begun this yet: check Prometheus' targets"
NO_CAUSES = (
    "No collector is scraped, it has begun just now, tier sizes are not known here, or Prometheus does not "
    "load tierscope-rules.yaml"
)
NO_MISS_SECONDS = "Nothing is computed, causes are not known here, or tokens alone do not explain TTFT"
NO_MISS_COST = (
    "No instance type of the endpoint has a price (objective.prices), or seconds by cause are absent"
)
NO_COST = "No prices are set here (objective.prices), or no advice was computed yet"
NO_TENANTS = "No exporter has tenant_series set, or no request had a cache salt"
NO_ROUTERS = "Routers were not compared here yet: that needs two replicas, and records that tell L1 from L2"
NO_ADVICE = "No advice was computed here yet: it needs a collector and a known deployment"

SOURCES_SAY = {
    Tier.L0: "L0 is told by the engine's page, its KV events and its hook.",
    Tier.L1: "L1 is told by the cache server's page and probe, and by the engine's hook.",
    Tier.L2: "L2 is told by the pool's master, workers and mount, and by the cache server's probe.",
}
"""What the figures of a tier rest on."""
