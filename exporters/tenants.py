"""Tokens by tenant for a bounded number of tenants, the heaviest; the others are one. Not thread-safe.

A tenant is known by the keyed hash of its cache salt, as in the store. Who is heavy is told by Space-Saving
(Metwally and others, 2005) over tokens that halve every `HALVED_AFTER` requests: a bounded number of
candidates, of which each is at most `error` lighter than it is taken for. What a tenant had when it loses
its place is told by a metric of its own, so that everything always adds up and no tenant's series jumps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.requests import NO_TOKENS, RequestRecord, TokenSplit
from tierscope.domain.settings import ExporterSettings
from tierscope.domain.tiers import Origin
from tierscope.registry.tenant_metrics import FORMER_TENANT_TOKENS, TENANT_TOKENS
from tierscope.registry.types import Metric, Sample

MOST_TENANTS = 100
CANDIDATES = 4
"""Tenants without a series that are weighed, for each that has one."""
HEAVIER = 2.0
"""So many times as heavy as the lightest with a series is who takes its place: they do not take turns."""
HALVED_AFTER = 10_000

NONE, OTHER = "none", "other"

Tenant = tuple[str, str, int]
"""Namespace, endpoint and keyed hash of the salt."""


def checked_tenant_series(settings: ExporterSettings) -> int:
    """The setting; raises `BadSettings` out of bounds, or where a tenant's name would not last."""
    wanted = settings.tenant_series
    if not 0 <= wanted <= MOST_TENANTS:
        what, fix = f"{wanted} is not from 0 to {MOST_TENANTS}", f"give at most {MOST_TENANTS} tenants series"
    elif wanted and settings.hash_key_file is None:
        what, fix = "without a key that lasts a tenant has another name in every run", "set hash_key_file"
    else:
        return wanted
    raise BadSettings([TierscopeError(what, where="exporter.tenant_series", fix=fix)])


@dataclass(slots=True)
class _Weight:
    """Tokens of late, and how many of them may be another's."""

    tokens: float
    error: float = 0.0


class TenantTotals:
    """Sums by tenant; with `most` 0 nothing is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shown: dict[Tenant, TokenSplit] = {}
        self._rest: dict[tuple[str, str, str], TokenSplit] = defaultdict(lambda: NO_TOKENS)
        self._former: dict[tuple[str, str], TokenSplit] = defaultdict(lambda: NO_TOKENS)
        self._weights: dict[Tenant, float] = {}
        """Of tenants with a series, what is surely theirs."""
        self._candidates: dict[Tenant, _Weight] = {}
        self._counted = 0

    def count(self, record: RequestRecord) -> None:
        """Add a request that reached its first token."""
        if not self._most:
            return
        who = (record.engine.namespace, record.engine.endpoint)
        if record.salt_hash is None:
            self._rest[*who, NONE] += record.tokens
            return
        tenant = (*who, record.salt_hash)
        if tenant in self._shown or self._takes_a_place(tenant, record.tokens.prompt):
            self._shown[tenant] = self._shown.get(tenant, NO_TOKENS) + record.tokens
            self._weights[tenant] = self._weights.get(tenant, 0.0) + record.tokens.prompt
        else:
            self._rest[*who, OTHER] += record.tokens
        self._counted += 1
        if self._counted % HALVED_AFTER == 0:
            self._weights = {one: tokens / 2 for one, tokens in self._weights.items()}
            for weight in self._candidates.values():
                weight.tokens /= 2
                weight.error /= 2

    def samples(self) -> Iterator[Sample]:
        """Yield the sums: at most (`most` + 3 for each endpoint) series for each origin."""
        for (namespace, endpoint, salt_hash), tokens in self._shown.items():
            yield from _samples(TENANT_TOKENS, (namespace, endpoint, f"{salt_hash:016x}"), tokens)
        for labels, tokens in self._rest.items():
            yield from _samples(TENANT_TOKENS, labels, tokens)
        for owner, tokens in self._former.items():
            yield from _samples(FORMER_TENANT_TOKENS, owner, tokens)

    def _takes_a_place(self, tenant: Tenant, tokens: int) -> bool:
        if len(self._shown) < self._most:
            return True
        mine = self._weigh(tenant, tokens)
        surely = mine.tokens - mine.error
        lightest = min(self._weights, key=lambda one: self._weights[one])
        if surely <= HEAVIER * self._weights[lightest]:
            return False
        self._former[lightest[:2]] += self._shown.pop(lightest)
        del self._weights[lightest], self._candidates[tenant]
        self._weights[tenant] = surely - tokens  # these are counted with the series
        return True

    def _weigh(self, tenant: Tenant, tokens: int) -> _Weight:
        known = self._candidates.get(tenant)
        if known is None:
            known = _Weight(0.0)
            if len(self._candidates) >= CANDIDATES * self._most:
                lightest = min(self._candidates, key=lambda one: self._candidates[one].tokens)
                gone = self._candidates.pop(lightest).tokens
                known = _Weight(gone, gone)
            self._candidates[tenant] = known
        known.tokens += tokens
        return known


def _samples(metric: Metric, labels: tuple[str, ...], tokens: TokenSplit) -> Iterator[Sample]:
    for origin in Origin:
        yield Sample(metric, (*labels, origin), tokens.of(origin))
