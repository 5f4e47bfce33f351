"""A reader that answers from memory, for those who ask a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.errors import StoreUnusable
from tierscope.domain.events import SourceCoverage, of_endpoint
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.window import CoveredSamples, CoveredTokens, Evidence, RequestWindow, TimeSpan

Name = tuple[str, str]


@dataclass
class StoredInMemory:
    """A `Reader` over what a test puts in; `asked` are the spans it was asked for."""

    recommendations: dict[Name, bytes] = field(default_factory=dict)
    records: dict[Name, TokenSplit] = field(default_factory=dict)
    engines: dict[Name, TokenSplit] = field(default_factory=dict)
    sources: tuple[SourceCoverage, ...] = ()
    evidences: dict[Name, Evidence] = field(default_factory=dict)
    configurations: dict[Name, tuple[DeploymentSince, ...]] = field(default_factory=dict)
    earlier: dict[Name, tuple[bytes, ...]] = field(default_factory=dict)
    answers: bool = True
    asked: list[TimeSpan] = field(default_factory=list)

    def endpoints(self) -> tuple[Name, ...]:
        if not self.answers:
            raise StoreUnusable("the collector does not answer", where="its socket", fix="start it")
        return tuple(sorted({*self.recommendations, *self.records, *self.evidences}))

    def history(self, namespace: str, endpoint: str) -> TimeSpan | None:
        found = self.evidences.get((namespace, endpoint))
        return found.window.span if found else None

    def totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        self.asked.append(span)
        return self._covered(self.records, (namespace, endpoint))

    def engine_totals(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredTokens:
        self.asked.append(span)
        return self._covered(self.engines, (namespace, endpoint))

    def window(self, namespace: str, endpoint: str, span: TimeSpan) -> RequestWindow:
        return self.evidence(namespace, endpoint, span).window

    def samples(self, namespace: str, endpoint: str, span: TimeSpan) -> CoveredSamples:
        found = self.evidence(namespace, endpoint, span)
        return CoveredSamples(found.samples, found.coverage)

    def coverage(self, span: TimeSpan) -> tuple[SourceCoverage, ...]:
        self.asked.append(span)
        return self.sources

    def evidence(self, namespace: str, endpoint: str, span: TimeSpan) -> Evidence:
        self.asked.append(span)
        return self.evidences[namespace, endpoint]

    def deployments(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[DeploymentSince, ...]:
        self.asked.append(span)
        return self.configurations.get((namespace, endpoint), ())

    def latest_recommendation(self, namespace: str, endpoint: str) -> bytes | None:
        self.endpoints()
        return self.recommendations.get((namespace, endpoint))

    def recommendation_history(self, namespace: str, endpoint: str, span: TimeSpan) -> tuple[bytes, ...]:
        self.asked.append(span)
        return self.earlier.get((namespace, endpoint), ())

    def row_counts(self) -> Mapping[str, int]:
        return {"requests": len(self.records)}

    def _covered(self, tokens: Mapping[Name, TokenSplit], name: Name) -> CoveredTokens:
        return CoveredTokens(tokens.get(name, NO_TOKENS), of_endpoint(self.sources, *name))
